"""Which compacted topics must not be cleaned now?

A broker removes a tombstone `delete.retention.ms` after its first cleaning, whether or not another
replica has seen it. The guard stops cleaning of a topic (`min.compaction.lag.ms` = 2^63-1: nothing
is ever old enough) as soon as a replica of it is missing, and lets it go on when all are back:

    look at the cluster ─▶ describe options ─▶ read the memory ─▶ decide
                                    ▲                              │  once more, at another broker,
                                    └──────────────────────────────┤  if something is to be done
                                         act ◀─ decide ◀─ read back ◀─ note

A replica that is in the ISR has every tombstone. One that leaves it misses those written from then
on; none of them can be removed before `delete.retention.ms` is over, for the clock of each starts
when it is first cleaned. So it is enough to be faster than that, and the guard knows how fast it is
(`guard_promise`). A pass that runs already is not stopped, and need not be.

The order of looks matters. Options are looked at *before* the memory is read to its end: if they
show a value that a guard has set, the memory shows that guard's note, which was there earlier.
After a note was written the memory is read again up to it, and what all notes together say is done;
another guard may have been faster. The rules for one topic are in `guard_decisions`.

This machine has no clock, no network and no files: `guard/` gives it these, tests give it worse.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import assert_never

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.guard_decisions import (
    REFUSED_PAUSE_MS,
    Case,
    can_be_noted,
    decide,
)
from sexton.machines.guard_events import (
    Altered,
    Decide,
    Describe,
    Described,
    Effect,
    Event,
    GuardConfig,
    LookAgain,
    NotSeen,
    Recalled,
    Remember,
    Seen,
)
from sexton.machines.guard_health import Health, Moment, TopicSight
from sexton.machines.guard_notes import FOREVER, LastSeen, Memory, Note
from sexton.machines.guard_views import NEVER, Views
from sexton.machines.guard_watched import Look, Watched

HEARTBEAT_MS = 60_000
UNSEEN = "the cluster could not be seen"


@dataclass(slots=True)
class Guard:
    name: str  # another one each time it starts
    config: GuardConfig
    memory: Memory = field(default_factory=Memory)
    topics: dict[str, Watched] = field(default_factory=dict)
    brokers: frozenset[int] = frozenset()
    views: Views = field(default_factory=Views)
    # Of topics that the last views do not show, with the time of the first.
    missed: dict[tuple[str, str], tuple[int, Watched]] = field(default_factory=dict)
    not_seen: str | None = None  # why, if the last look failed
    unseen: bool = False  # in this round the cluster is seen again after a long time
    gap: tuple[int, int] = (0, 0)  # the longest time in which nobody looked, from and to
    missing_since_ms: dict[str, int] = field(default_factory=dict)  # noted, and not there
    round: int = 0
    heartbeat_ms: int = 0

    def handle(self, event: Event) -> list[Effect]:
        match event:
            case Seen():
                return self._seen(event)
            case NotSeen(_, why):
                self.not_seen = why
                return []
            case Described():
                self._described(event)
                return []
            case Recalled(now_ms, records):
                for offset, key, value in records:
                    self.memory.apply(offset, key, value, now_ms)
                return []
            case Decide(now_ms):
                return self._decide(now_ms)
            case Altered():
                self._altered(event)
                return []
            case _:
                assert_never(event)

    # ── looking ──

    @property
    def last_seen_ms(self) -> int:
        return self.views.last_ms

    def _seen(self, event: Seen) -> list[Effect]:
        now_ms = event.now_ms
        self.round += 1
        self.unseen = self._stood_still(now_ms)
        before_ms = self.views.known_ms or self._vouched_ms(now_ms)
        self._notice_gap(before_ms, now_ms)
        self.views.look(event.by, now_ms, len(event.brokers))
        self.brokers, self.not_seen = event.brokers, None
        for name in [name for name in self.topics if name not in event.topics]:
            self._miss(self.topics.pop(name), now_ms)
        for name, sight in event.topics.items():
            if self.config.only is None or name in self.config.only:
                self._watch(sight, Moment(now_ms, self.views.known_ms, before_ms))
        for missed, (since_ms, _) in list(self.missed.items()):
            if since_ms <= self.views.known_ms:
                del self.missed[missed]
        for entry in self.memory.all_in_force():
            if entry.note.topic in event.topics:
                self.missing_since_ms.pop(entry.note.topic, None)
            else:
                self.missing_since_ms.setdefault(entry.note.topic, now_ms)
        wanted = [name for name, each in self.topics.items() if self._to_describe(each, now_ms)]
        return [Describe(tuple(wanted))] if wanted else []

    def _vouched_ms(self, now_ms: int) -> int:
        """When a guard before us last saw all well. One whose clock was wrong may have noted a time
        that is still to come: until then every absence would seem to have begun just now."""
        noted_ms = self.memory.last_seen_ms
        return NEVER if self._is_long(noted_ms - now_ms) else noted_ms

    def _notice_gap(self, before_ms: int, now_ms: int) -> None:
        """A replica that left and came back while nobody looked has left no trace. That nobody
        looked before the first guard of all needs no telling."""
        if before_ms != NEVER and now_ms - before_ms > self.gap[1] - self.gap[0]:
            self.gap = before_ms, now_ms

    def _stood_still(self, now_ms: int) -> bool:
        """Has nobody looked for so long that what was seen then says nothing of now?"""
        return bool(self.last_seen_ms) and self._is_long(now_ms - self.last_seen_ms)

    def _is_long(self, ms: int) -> bool:
        return ms > self.config.blind_ms

    def _miss(self, watched: Watched, now_ms: int) -> None:
        """A broker that is cut off may never have heard of the topic: that proves nothing."""
        self.missed.setdefault(watched.sight.identity, (now_ms, watched))

    def _watch(self, sight: TopicSight, at: Moment) -> None:
        watched, now_ms = self.topics.get(sight.name), at.now_ms
        if watched is None or watched.sight.topic_id != sight.topic_id:
            if watched is not None:
                self._miss(watched, now_ms)
            new = Watched(sight, Health(sight.topic_id))
            _, before = self.missed.pop(sight.identity, (0, new))
            new.health, new.differs_since_ms = before.health, before.differs_since_ms
            new.bare_since_ms = before.bare_since_ms
            new.outdated = before.outdated
            new.unsure_ms = before.unsure_ms if watched is None else watched.unsure_ms
            self.topics[sight.name] = watched = new
        watched.begin_round(sight, len(self.brokers))
        moves_seen = watched.health.moves_seen
        watched.health.see(sight, self.brokers, at)
        watched.reasons = watched.health.reasons()
        if watched.reasons or watched.health.moves_seen > moves_seen:
            watched.outdated = self.memory.audited.get(sight.name)  # read before this look
        if watched.reasons or self.unseen:
            watched.well_since_ms, watched.well_rounds = None, 0
            return
        watched.well_rounds += 1
        if watched.well_since_ms is None:
            watched.well_since_ms = now_ms

    def _to_describe(self, watched: Watched, now_ms: int) -> bool:
        described_ms = watched.described_ms
        if described_ms is None or now_ms - described_ms >= self.config.describe_ms:
            return True
        if self.memory.in_force(watched.sight.name) is not None:
            return True
        compacted = watched.options is None or watched.options.compacted
        return compacted and bool(self.wanted(watched, now_ms))

    def _described(self, event: Described) -> None:
        for name, found in event.options.items():
            if name in self.topics:
                watched = self.topics[name]
                watched.add(Look(event.by, found))
                watched.described_ms, watched.failed = event.now_ms, None
        for name, why in event.failed.items():
            if name in self.topics:
                self.topics[name].failed = why

    # ── deciding ──

    def wanted(self, watched: Watched, now_ms: int) -> tuple[str, ...]:
        """Why a topic is to be frozen; empty if it need not be."""
        if self.config.force:
            return ()
        if watched.options is not None and not watched.options.compacted:
            return ()
        found = list(watched.reasons)
        if self.unseen:
            found.append(UNSEEN)
        hold = self.memory.holds.get(watched.sight.name)
        if hold is not None and hold.means(watched.sight.topic_id):
            found.append("frozen by hand")
        if now_ms < self.memory.maintenance_until_ms:
            found.append("maintenance")
        return tuple(found)

    def _decide(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._stood_still(now_ms):  # between the look and now, asleep maybe
            self.unseen = True
            for watched in self.topics.values():
                watched.well_since_ms, watched.well_rounds = None, 0
        for name in sorted(self.topics):
            watched = self.topics[name]
            if not self.is_unprotected(watched):
                watched.bare_since_ms = None
            elif watched.bare_since_ms is None:
                watched.bare_since_ms = now_ms
            wanted = self.wanted(watched, now_ms)
            case = Case(now_ms, self.name, self.config, self.memory, watched, wanted, self.round)
            effects += decide(case)
        effects += self._clear_missing(now_ms)
        if self._is_worth_a_second_look():
            effects.append(LookAgain())
        return [*effects, *self._heartbeat(now_ms)]

    def _is_worth_a_second_look(self) -> bool:
        """Until two brokers were asked, an absence may have lasted for any time. And a replica of
        which one alone says that it is back counts as away if the leader changes meanwhile."""
        if self.views.known_ms == NEVER:
            return True
        return any(each.health.changed_in(self.views.last_ms) for each in self.topics.values())

    def _clear_missing(self, now_ms: int) -> list[Effect]:
        """A topic that was frozen has been deleted, or we may not see it any more."""
        effects: list[Effect] = []
        for name, since_ms in list(self.missing_since_ms.items()):
            entry = self.memory.in_force(name)
            if entry is None or name in self.topics:
                del self.missing_since_ms[name]
            elif since_ms > self.views.known_ms:
                continue  # one broker says so: it may not have heard of the topic yet
            elif now_ms - since_ms >= self.config.hold_ms and self._mine(name):
                effects.append(Remember(_cleared(entry.note, self.name, entry.newest, now_ms)))
        return effects

    def _mine(self, name: str) -> bool:
        return self.config.only is None or name in self.config.only

    def _heartbeat(self, now_ms: int) -> list[Effect]:
        """Tells a later guard up to when nothing was away unguarded."""
        if self.config.only is not None or now_ms - self.heartbeat_ms < HEARTBEAT_MS:
            return []
        if self.views.known_ms == NEVER:
            return []
        for watched in self.topics.values():
            if self.is_unprotected(watched):
                return []
        self.heartbeat_ms = now_ms
        return [Remember(LastSeen(self.views.known_ms))]

    def is_unprotected(self, watched: Watched) -> bool:
        """A replica is or may be away and the topic is not frozen, as far as we can see."""
        if not (watched.reasons or watched.health.out) or not watched.sight.replicated:
            return False
        if watched.options is None:
            return True
        return watched.options.compacted and watched.options.min_lag_ms < int(FOREVER)

    def _altered(self, event: Altered) -> None:
        watched = self.topics.get(event.topic)
        if watched is None:
            return
        watched.refused = event.why if event.outcome == "refused" else None
        if event.outcome == "refused":
            watched.not_before_ms = event.now_ms + REFUSED_PAUSE_MS
        elif event.outcome == "unknown":
            watched.unsure_ms = event.now_ms

    def check(self) -> None:
        for entry in self.memory.all_in_force():
            assert can_be_noted(entry.note.previous), entry
        for watched in self.topics.values():
            assert watched.well_since_ms is None or not watched.reasons


def _cleared(note: Note, me: str, seen: int, now_ms: int) -> Note:
    return replace(note, by=me, state="cleared", at_ms=now_ms, seen=seen, gone=True)
