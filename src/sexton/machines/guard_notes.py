"""What were the topic's options before the guard froze it, and who may say so?

The guard's memory is a compacted topic. Before a guard touches a topic it notes there what it finds
("planned"), then that the topic is frozen, then that it is being released ("thawing"), and at last
that all is as it was ("cleared"). These four are a *cycle*; a topic's cycles are numbered.

Several guards may write at once, and each must come to the same answer, also after the log was
compacted. So a note's key is (topic, cycle, writer): nobody overwrites what another has noted, and

    a cycle is over       when a "cleared" note is in it whose writer knew every other note that
                          told of an act (one that comes later or was not known keeps it open)
    what was there before says the first "planned" note; all later notes repeat it, and one that
                          corrects it (an operator's new wish) has a higher revision
    the state             is that of the last note that is not merely a plan

None of this depends on a note that compaction may remove: it keeps the last one of each writer, and
a writer plans once. A guard that plans late, for a cycle that others have been through, has no
effect. Notes of earlier cycles are of no use and get a tombstone. Should a replica bring one back,
which is the very trouble that guards exist for, the higher cycle still wins; the last cycle of a
topic is never deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, field, fields, replace
from typing import Any, Literal, get_args

from sexton.base.lazy_dataclass import dataclass

MIN_LAG, MAX_LAG = "min.compaction.lag.ms", "max.compaction.lag.ms"
FOREVER = str((1 << 63) - 1)  # no record is ever older than this: the cleaner starts no pass

State = Literal["planned", "frozen", "thawing", "cleared"]
ACTS: tuple[State, ...] = ("frozen", "thawing")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Lags:
    """What is set on the topic itself, as Kafka has it; None: not set."""

    min: str | None = None
    max: str | None = None


@dataclass(frozen=True, slots=True)
class Doubt:
    """A replica that may lack a tombstone, whatever the ISR says."""

    partition: int
    replica: int
    why: str


@dataclass(frozen=True, slots=True)
class Note:
    topic: str
    cycle: int
    by: str  # the guard, a new name each time it starts
    state: State
    topic_id: str  # a topic of the same name with another id is another topic
    previous: Lags
    raised: bool  # max.compaction.lag.ms was in the way, and is raised too
    since_ms: int  # when the cycle began, or the topic was frozen again in it
    at_ms: int
    why: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    revision: int = 0  # of `previous`, `raised` and `doubts`
    again: bool = False  # to be applied again: that it is not there is no wish of anybody
    released_ms: int = 0  # when somebody last set out to thaw it in this cycle
    well_since_ms: int = 0  # for guards that do not stay: since when all replicas are in sync
    seen: int = -1  # the last note of this cycle that its writer knew, by offset
    unwell: int = -1  # an audit noted before this offset no longer counts: a replica has left since
    gone: bool = False  # cleared because the topic was not there, whatever its options were


@dataclass(frozen=True, slots=True)
class Entry:
    """What all notes of a topic's last cycle come to."""

    note: Note
    newest: int  # the offset of the last note that counts; a plan that came second does not
    is_over: bool


# ── orders: what people have asked for ──


@dataclass(frozen=True, slots=True)
class Hold:
    """`guard freeze`: frozen until somebody thaws it."""

    topic: str
    held: bool
    at_ms: int
    topic_id: str = ""  # another topic of that name is not meant; empty: whichever

    def means(self, topic_id: str) -> bool:
        return self.held and self.topic_id in ("", topic_id)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """`guard maintenance`: everything is frozen until then."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class Audited:
    """Somebody has looked: doubts of this cycle and earlier ones are settled.

    Until a replica leaves again: what comes after that, nobody has looked at.
    """

    topic: str
    cycle: int


@dataclass(frozen=True, slots=True)
class LastSeen:
    """A guard looked at the whole cluster then; what was not frozen was well."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Panic:
    """The default of all brokers is frozen; before, it was this (None: not set)."""

    on: bool
    previous: Lags
    at_ms: int


@dataclass(frozen=True, slots=True)
class Size:
    """How large a topic was on one broker when it was first looked at after it was frozen."""

    topic: str
    broker: int
    cycle: int
    bytes: int
    at_ms: int

    def is_of(self, note: Note) -> bool:
        """Of the freeze that is noted, and not of one before it."""
        return self.cycle == note.cycle and self.at_ms >= note.since_ms


Order = Hold | Maintenance | Audited | LastSeen | Panic | Size
Saying = Note | Order


# ── bytes ──


def encode(saying: Saying) -> tuple[bytes, bytes]:
    """Key and value of a record; JSON, so that an operator can read it with any consumer."""
    return key_of(saying), _json({"format": FORMAT, **asdict(saying)})


def key_of(saying: Saying) -> bytes:
    match saying:
        case Note(topic, cycle, by):
            return _json({"topic": topic, "cycle": cycle, "by": by})
        case Hold(topic) | Audited(topic):
            return _json({"order": _order_name(saying), "topic": topic})
        case Size(topic, broker):
            return _json({"order": _order_name(saying), "topic": topic, "broker": broker})
        case _:
            return _json({"order": _order_name(saying)})


def decode(key: bytes, value: bytes) -> Saying | None:
    """None: not understood, from a later version say."""
    try:
        named, told = json.loads(key), json.loads(value)
        if told.pop("format") != FORMAT:
            return None
        if "order" in named:
            saying: Saying | None = _order(named["order"], told)
        else:
            told["previous"] = Lags(**told["previous"])
            told["why"] = tuple(told["why"])
            told["doubts"] = tuple(Doubt(**each) for each in told["doubts"])
            saying = Note(**told)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return saying if saying is not None and _is_sound(saying) else None


def _order(name: str, told: dict[str, Any]) -> Order | None:
    if "previous" in told:
        told["previous"] = Lags(**told["previous"])
    kind = _ORDERS.get(name)
    return None if kind is None else kind(**told)


_ORDERS: dict[str, type[Order]] = {
    "hold": Hold,
    "maintenance": Maintenance,
    "audited": Audited,
    "last-seen": LastSeen,
    "panic": Panic,
    "size": Size,
}


# By the type of a field: may it hold this? JSON has no such scruples.
_TYPES: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "str | None": lambda value: value is None or isinstance(value, str),
    "int": lambda value: type(value) is int,
    "bool": lambda value: isinstance(value, bool),
    "State": lambda value: value in get_args(State),
    "Lags": lambda value: _is_sound(value),
    "tuple[str, ...]": lambda value: all(isinstance(each, str) for each in value),
    "tuple[Doubt, ...]": lambda value: all(map(_is_sound, value)),
}


def _is_sound(told: Saying | Lags | Doubt) -> bool:
    return all(_TYPES[str(each.type)](getattr(told, each.name)) for each in fields(told))


def _order_name(order: Saying) -> str:
    return next(name for name, kind in _ORDERS.items() if isinstance(order, kind))


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


# ── the fold ──


@dataclass(frozen=True, slots=True)
class _Placed:
    offset: int
    note: Note
    heard_ms: int  # when we read it


@dataclass(slots=True)
class Memory:
    """All notes there are, in the order of the log."""

    topics: dict[str, dict[int, dict[str, _Placed]]] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    audited: dict[str, tuple[int, int]] = field(default_factory=dict)  # cycle, offset
    maintenance_until_ms: int = 0
    last_seen_ms: int = 0
    panic: Panic | None = None
    sizes: dict[tuple[str, int], Size] = field(default_factory=dict)  # by topic and broker
    not_understood: int = 0
    next_offset: int = 0

    def apply(self, offset: int, key: bytes, value: bytes | None, now_ms: int) -> None:
        self.next_offset = max(self.next_offset, offset + 1)
        if value is None:
            self._forget(key)
            return
        match decode(key, value):
            case Note() as note:
                of_cycle = self.topics.setdefault(note.topic, {}).setdefault(note.cycle, {})
                of_cycle[note.by] = _Placed(offset, note, now_ms)
            case Hold(topic) as hold:
                self.holds[topic] = hold
            case Audited(topic, cycle):
                self.audited[topic] = max((cycle, offset), self.audited.get(topic, (0, -1)))
            case Maintenance(until_ms):
                self.maintenance_until_ms = until_ms
            case LastSeen(at_ms):
                self.last_seen_ms = at_ms  # the last word, as after compaction; clocks may be wrong
            case Panic() as panic:
                self.panic = panic
            case Size(topic, broker) as size:
                self.sizes[topic, broker] = size
            case None:
                self.not_understood += 1

    def _forget(self, key: bytes) -> None:
        try:
            named = json.loads(key)
            del self.topics[named["topic"]][named["cycle"]][named["by"]]
        except (ValueError, TypeError, KeyError, RecursionError):
            pass  # of a key that we do not know, or have forgotten

    def settles(self, note: Note) -> bool:
        """Has somebody looked since a replica last left?"""
        cycle, offset = self.audited.get(note.topic, (0, -1))
        return cycle > note.cycle or (cycle == note.cycle and offset >= note.unwell)

    def last(self, topic: str) -> Entry | None:
        """The topic's last cycle, over or not."""
        cycles = self.topics.get(topic, {})
        number = max((n for n, notes in cycles.items() if notes), default=None)
        if number is None:
            return None
        return resolve(sorted(cycles[number].values(), key=lambda placed: placed.offset))

    def in_force(self, topic: str) -> Entry | None:
        """The topic's last cycle, if it is not over."""
        entry = self.last(topic)
        return None if entry is None or entry.is_over else entry

    def all_in_force(self) -> Iterator[Entry]:
        for topic in sorted(self.topics):
            entry = self.in_force(topic)
            if entry is not None:
                yield entry

    def heard_from_others_ms(self, topic: str, cycle: int, me: str, by_their_clock: bool) -> int:
        """When we last read a note of this cycle that somebody else wrote, or they wrote it."""
        notes = self.topics.get(topic, {}).get(cycle, {})
        others = [placed for by, placed in notes.items() if by != me]
        if by_their_clock:
            return max((each.note.at_ms for each in others), default=0)
        return max((each.heard_ms for each in others), default=0)

    def outdated(self, topic: str) -> list[bytes]:
        """Keys of notes that nobody needs: there is a later cycle."""
        cycles = self.topics.get(topic, {})
        last = max((n for n, notes in cycles.items() if notes), default=0)
        return [
            key_of(placed.note)
            for number, notes in sorted(cycles.items()) if number < last
            for placed in notes.values()
        ]  # fmt: skip


def resolve(placed: list[_Placed]) -> Entry:
    """One cycle's notes, by offset, as one."""
    acts = [each for each in placed if each.note.state in ACTS]
    cleared = [
        each
        for each in placed
        if each.note.state == "cleared"
        and all(act.offset <= each.note.seen for act in acts if act.note.by != each.note.by)
    ]
    if cleared:
        return Entry(cleared[-1].note, cleared[-1].offset, is_over=True)
    if not acts:
        first = next(each for each in placed if each.note.state == "planned")
        return Entry(first.note, first.offset, is_over=False)
    newest = acts[-1]
    right = max(acts, key=lambda each: (each.note.revision, each.offset)).note
    note = replace(
        newest.note,
        previous=right.previous,
        raised=right.raised,
        doubts=right.doubts,
        revision=right.revision,
        released_ms=max(each.note.released_ms for each in acts),
        unwell=max(each.note.unwell for each in acts),
    )
    return Entry(note, newest.offset, is_over=False)
