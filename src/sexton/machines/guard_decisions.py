"""One topic: what is to be done now?

    nothing noted ──a replica is away──▶ planned ──it is so──▶ frozen
                                            │                  ▲    │ all in sync, for a while
                              all in sync   ▼                  │    ▼
      over ◀──cleared◀── it is as it was ── thawing ◀──────────┼────┘
                                               └──away again───┘

Each arrow is a note, and a note comes before the act that it speaks of. So whoever finds "planned"
or "thawing" does not know whether the act happened, and need not: both acts can be done twice.

Four rules keep an operator's values safe.

  - Before a topic is frozen its options must be what the note says they were. If they are not,
    and stay so, somebody has changed them, and the note is corrected first.
  - Nothing is noted or changed by what one broker alone says of the options: it may be cut off
    from its controller and not know of a change. Two must show the same.
  - What is frozen (2^63-1) is never noted as what was there before.
  - Only what the guard has set is set back. An option that somebody changed meanwhile is theirs.

A change that was sent may take effect late, and another guard may be about to send one. A cycle is
therefore cleared only after a time in which neither can be; `late_ms` and `patience_ms` say how
long that is.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.guard_events import (
    Alter,
    Describe,
    Effect,
    Forget,
    GuardConfig,
    LookAgain,
    Options,
    Remember,
)
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Doubt, Entry, Lags, Memory, Note
from sexton.machines.guard_views import SEVERAL
from sexton.machines.guard_watched import Watched

REFUSED_PAUSE_MS = 30_000


@dataclass(slots=True)
class Case:
    """One topic at one time."""

    now_ms: int
    me: str
    config: GuardConfig
    memory: Memory
    watched: Watched
    wanted: tuple[str, ...]  # why it is to be frozen; empty: it need not be
    round: int
    effects: list[Effect] = field(default_factory=list)


def decide(case: Case) -> list[Effect]:
    name = case.watched.sight.name
    entry = case.memory.in_force(name)
    if entry is None:
        _none_noted(case)
    elif entry.note.topic_id != case.watched.sight.topic_id:
        _replaced(case, entry)
    elif entry.note.state == "planned":
        _planned(case, entry)
    elif entry.note.state == "frozen":
        _frozen(case, entry)
    else:
        _thawing(case, entry)
    return case.effects


# ── the states ──


def _none_noted(case: Case) -> None:
    watched, options = case.watched, case.watched.options
    watched.differs_since_ms = watched.unfrozen_since_ms = None
    last = case.memory.last(watched.sight.name)
    if last is not None and _was_out_of_sight(case, last):
        if _agreed(case):
            note = replace(
                last.note, cycle=last.note.cycle + 1, by=case.me, state="planned",
                at_ms=case.now_ms, seen=-1, gone=False, well_since_ms=0,
            )  # fmt: skip
            case.effects.append(Remember(note))
        return
    if not case.wanted or options is None or not watched.fresh:
        return
    if not options.compacted or not watched.sight.replicated or not can_be_noted(options.own):
        return  # that it is frozen and nobody has noted why is told by `guard_promise`
    if not _agreed(case):
        return
    note = Note(
        watched.sight.name,
        1 if last is None else last.note.cycle + 1,
        case.me,
        "planned",
        watched.sight.topic_id,
        options.own,
        raised=options.max_lag_ms < int(FOREVER),
        since_ms=case.now_ms,
        at_ms=case.now_ms,
        why=case.wanted,
        doubts=_doubts(case, options.delete_retention_ms),
    )
    case.effects.append(Remember(note))


def _was_out_of_sight(case: Case, last: Entry) -> bool:
    """Is this the very topic that was taken for deleted while it was frozen, and is it still?"""
    watched, options = case.watched, case.watched.options
    if not last.note.gone or last.note.topic_id != watched.sight.topic_id:
        return False
    return options is not None and watched.fresh and is_frozen(options)


def _replaced(case: Case, entry: Entry) -> None:
    """The topic was deleted and made again; options go by name, and a change may have come late."""
    options = case.watched.options
    if options is None or not case.watched.fresh or case.watched.rounds < SEVERAL:
        return  # a broker that is cut off may still speak of an earlier one
    if not _agreed(case):
        return
    if is_frozen(options):  # by us: then the best guess is what its predecessor had
        topic_id = case.watched.sight.topic_id
        _remember(case, entry, "frozen", topic_id=topic_id, revision=entry.note.revision + 1)
    elif _is_quiet(case, entry.note):
        _remember(case, entry, "cleared")


def _planned(case: Case, entry: Entry) -> None:
    options = case.watched.options
    if not case.wanted:
        if _may_thaw(case, entry):
            _remember(case, entry, "thawing", released_ms=case.now_ms)
        else:
            _keep_doubts(case, entry)
    elif options is not None and case.watched.fresh:
        if is_frozen(options):
            if not _agreed(case):
                return
            late = _joined(entry.note.doubts, _doubts(case, options.delete_retention_ms))
            _remember(case, entry, "frozen", doubts=late, revision=entry.note.revision + 1)
            _forget_the_past(case)
        elif matches(options, entry.note):
            case.watched.differs_since_ms = None
            _freeze(case, entry)
        elif _differs_for_long(case):
            _correct(case, entry)


def _frozen(case: Case, entry: Entry) -> None:
    note, options = entry.note, case.watched.options
    if not case.wanted:
        case.watched.unfrozen_since_ms = None
        # What somebody unfroze is theirs until all is well; the next absence is another one.
        if _is_free(case) or _may_thaw(case, entry):
            _remember(case, entry, "thawing", again=False, released_ms=case.now_ms)
        else:
            _keep_doubts(case, entry)
        return
    if options is None or not case.watched.fresh:
        return
    if is_frozen(options):
        if case.watched.differs_since_ms is not None and not _agreed(case):
            return  # others have said otherwise: this one may be cut off
        case.watched.differs_since_ms = case.watched.unfrozen_since_ms = None
        doubts = _doubts_now(case, note)
        if doubts != note.doubts:
            _remember(case, entry, "frozen", doubts=doubts, revision=note.revision + 1)
        elif case.memory.settles(note) and _has_left(case, note):
            _remember(case, entry, "frozen")
        elif note.again:
            if _agreed(case):
                _remember(case, entry, "frozen", again=False)
        elif case.config.durable_hold and note.well_since_ms:
            _remember(case, entry, "frozen", well_since_ms=0)
    elif note.again and matches(options, note):
        _freeze(case, entry)
    elif _is_our_own_thaw(case, note, options):
        _correct(case, entry)
    elif note.again:
        if _differs_for_long(case):
            _correct(case, entry)
    elif _differs_for_long(case):
        if case.watched.unfrozen_since_ms is None:
            case.watched.unfrozen_since_ms = case.now_ms
        if case.config.reapply:
            _correct(case, entry)


def _is_our_own_thaw(case: Case, note: Note, options: Options) -> bool:
    """A thaw that was sent before the topic was frozen again, and took effect late."""
    late_ms = case.config.late_ms + case.config.patience_ms + case.config.round_ms
    since_ms = case.watched.differs_since_ms or case.now_ms
    return matches(options, note) and since_ms - note.released_ms <= late_ms


def _thawing(case: Case, entry: Entry) -> None:
    note, options = entry.note, case.watched.options
    if options is None or not case.watched.fresh:
        return
    if case.wanted:  # again: whatever was set back is what is to be set back later
        _correct(case, entry)
        return
    restore = restoring(options.own, note)
    if restore:
        if note.by == case.me or _is_quiet(case, note):  # else the one that has said it does it
            _alter(case, restore, freezes=False)
    elif _is_quiet(case, note) and _agreed(case):
        _remember(case, entry, "cleared")


# ── what the states share ──


def is_frozen(options: Options) -> bool:
    return options.own.min == FOREVER


def can_be_noted(lags: Lags) -> bool:
    """A frozen value is not what was there before."""
    return lags.min != FOREVER


def matches(options: Options, note: Note) -> bool:
    """Is it as the note says it was, so that what the note says can be done?"""
    if options.own.min != note.previous.min:
        return False
    if note.raised:
        return options.own.max in (note.previous.max, FOREVER)
    return options.max_lag_ms >= int(FOREVER)  # else somebody has set it since


def restoring(own: Lags, note: Note) -> tuple[tuple[str, str | None], ...]:
    """The options that the guard set and that still are as it set them, as they were before."""
    values: list[tuple[str, str | None]] = []
    if own.min == FOREVER:
        values.append((MIN_LAG, note.previous.min))
    if note.raised and own.max == FOREVER:
        values.append((MAX_LAG, note.previous.max))
    return tuple(values)


def _correct(case: Case, entry: Entry) -> None:
    """Somebody has changed the options: what they are now is what is to be set back later."""
    note, options = entry.note, case.watched.options
    assert options is not None
    if not _agreed(case):
        return
    own = options.own
    wish = Lags(
        note.previous.min if own.min == FOREVER else own.min,
        note.previous.max if note.raised and own.max == FOREVER else own.max,
    )
    raised = note.raised or options.max_lag_ms < int(FOREVER)
    changed = wish != note.previous or raised != note.raised
    doubts = _doubts_now(case, note)
    was_thawed = note.state == "thawing" and not is_frozen(options)
    _remember(
        case,
        entry,
        "frozen",
        why=case.wanted,
        since_ms=case.now_ms if was_thawed else note.since_ms,
        previous=wish,
        raised=raised,
        doubts=doubts,
        revision=note.revision + (1 if changed or doubts != note.doubts else 0),
        again=True,
        released_ms=case.now_ms if note.state == "thawing" else note.released_ms,
    )
    case.effects.append(LookAgain(noted=True))


def _freeze(case: Case, entry: Entry) -> None:
    values: tuple[tuple[str, str | None], ...] = ((MIN_LAG, FOREVER),)
    if entry.note.raised:
        values += ((MAX_LAG, FOREVER),)
    assert can_be_noted(entry.note.previous)
    _alter(case, values, freezes=True)


def _alter(case: Case, values: tuple[tuple[str, str | None], ...], *, freezes: bool) -> None:
    if case.now_ms < case.watched.not_before_ms or case.watched.altered_round == case.round:
        return
    if not _agreed(case):
        return
    case.watched.altered_round = case.round
    not_after_ms = case.now_ms + case.config.patience_ms
    case.effects.append(Alter(case.watched.sight.name, values, freezes, not_after_ms))


def _agreed(case: Case) -> bool:
    """Are the options what brokers agree on? If too few were asked yet, another one is."""
    if case.watched.agreement() is not None:
        return True
    if len(case.watched.looks) <= SEVERAL:
        case.effects.append(Describe((case.watched.sight.name,)))
    else:
        case.effects.append(LookAgain())
    return False


def _remember(case: Case, entry: Entry, state: Any, **changes: Any) -> None:
    if _has_left(case, entry.note):
        changes["unwell"] = case.memory.next_offset
    note = replace(
        entry.note, by=case.me, state=state, at_ms=case.now_ms, seen=entry.newest, **changes
    )
    assert can_be_noted(note.previous)
    case.effects.append(Remember(note))


def _forget_the_past(case: Case) -> None:
    keys = case.memory.outdated(case.watched.sight.name)
    if keys:
        case.effects.append(Forget(tuple(keys)))


def _differs_for_long(case: Case) -> bool:
    """Brokers hear of a change one after the other; one look proves nothing."""
    if case.watched.differs_since_ms is None:
        case.watched.differs_since_ms = case.now_ms
    is_long = case.now_ms - case.watched.differs_since_ms >= case.config.settle_ms
    if not is_long:
        case.effects.append(LookAgain())
    return is_long


def _is_free(case: Case) -> bool:
    """All is well, and the topic is not frozen any more: brokers agree on both."""
    watched = case.watched
    if watched.well_rounds < SEVERAL or all(is_frozen(look.options) for look in watched.looks):
        return False
    if not _agreed(case):
        return False
    assert watched.options is not None
    return not is_frozen(watched.options)


def _quiet_for_ms(case: Case, note: Note) -> int:
    """How long no other guard has said anything about this cycle."""
    by_their_clock = case.config.durable_hold  # we were not there to hear it
    heard_ms = case.memory.heard_from_others_ms(note.topic, note.cycle, case.me, by_their_clock)
    return case.now_ms - heard_ms


def _is_quiet(case: Case, note: Note) -> bool:
    """No change, of ours or of another guard, may still be on its way."""
    unsure_ms = case.watched.unsure_ms
    if unsure_ms is not None and case.now_ms - unsure_ms <= case.config.late_ms:
        return False
    return _quiet_for_ms(case, note) > case.config.late_ms + case.config.patience_ms


def _may_thaw(case: Case, entry: Entry) -> bool:
    if case.config.force:
        return True
    if case.watched.well_rounds < SEVERAL:
        return False
    if _doubts_now(case, entry.note) and not case.config.thaw_in_doubt:
        return False
    hold_ms, since_ms = case.config.hold_ms, case.watched.well_since_ms
    if case.config.durable_hold:
        if not entry.note.well_since_ms:
            if hold_ms:
                state = "frozen" if entry.note.state == "planned" else entry.note.state
                again = entry.note.again or entry.note.state == "planned"
                _remember(case, entry, state, again=again, well_since_ms=case.now_ms)
            return not hold_ms
        since_ms = entry.note.well_since_ms
    elif _quiet_for_ms(case, entry.note) < hold_ms:
        return False  # another guard may see what we do not
    return since_ms is not None and case.now_ms - since_ms >= hold_ms


# ── doubts ──


def _doubts(case: Case, budget_ms: int) -> tuple[Doubt, ...]:
    """Those of a topic that is not frozen yet."""
    return _joined(case.watched.health.doubts(case.now_ms, budget_ms), case.watched.health.moves())


def _doubts_now(case: Case, note: Note) -> tuple[Doubt, ...]:
    """Those of a topic that is or was frozen."""
    if case.memory.settles(note) and not _has_left(case, note):
        return ()
    health, found = case.watched.health, list(note.doubts)
    found += health.moves()
    since_ms, options = case.watched.unfrozen_since_ms, case.watched.options
    if since_ms is not None and options is not None:
        found += health.doubts(case.now_ms, options.delete_retention_ms, since_ms)
    return _joined(tuple(doubt for doubt in found if health.holds(doubt)))


def _keep_doubts(case: Case, entry: Entry) -> None:
    """Those that came up in the look in which all was well again: whoever audits the topic has to
    know of them, and so has the guard that comes after this one."""
    note, doubts = entry.note, _doubts_now(case, entry.note)
    if case.config.thaw_in_doubt or not doubts:
        return
    if {*doubts} <= {*note.doubts} and not case.memory.settles(note):
        return  # all is noted, and that no audit has settled it
    again = note.again or note.state == "planned"
    joined = _joined(note.doubts, doubts)
    _remember(case, entry, "frozen", again=again, doubts=joined, revision=note.revision + 1)


def _has_left(case: Case, note: Note) -> bool:
    """After the audit of this cycle; an order for all time is not undone by it."""
    audit = case.memory.audited.get(note.topic, (0, -1))
    if audit[0] != note.cycle:
        return False
    return bool(case.watched.health.reasons()) or case.watched.outdated == audit


def _joined(*several: tuple[Doubt, ...]) -> tuple[Doubt, ...]:
    """One for each replica: the first that was said."""
    found: dict[tuple[int, int], Doubt] = {}
    for doubt in (doubt for some in several for doubt in some):
        found.setdefault((doubt.partition, doubt.replica), doubt)
    return tuple(found[place] for place in sorted(found))
