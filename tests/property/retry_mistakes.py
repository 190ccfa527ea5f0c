"""Eighteen ways to build ordered retry wrongly, each one line in the design's table.

Ten are wrong protocols around the right task: these are flags that the rules of the small world
look at (`retry_rules`). The others are other designs: locks that are counted or are just on or off,
other names for locks, failed messages that are sent to the retry topic again. They are made of the
real task with one thing changed, in the spirit of the seed:

    Seed        what waits is what the retry topic holds; a key is locked while its count is above 0
    Boolean     a key is locked until something of it is released
    Republish   a failed message goes behind the others
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import Enum
from random import Random
from typing import Any

from sexton.machines.retry_pending import Held, LaneKey, Pending
from sexton.machines.retry_records import TaskName
from sexton.machines.retry_rounds import Report
from sexton.machines.retry_settings import Settings
from sexton.machines.retry_startup import StartUp
from sexton.machines.retry_task import Stale, Task


class Mistake(Enum):
    DUAL_WRITE = "dual write under a fresh uuid"
    BOOLEAN = "boolean lock"
    COUNTED_TWICE = "own records counted twice"
    SKIPS_OWN = "seed's stable origin id, skip own"
    BUSINESS_KEY = "business key as lock key"
    UUID_AND_COUNTER = "seed's uuid + counter"
    NO_BARRIER = "no barrier"
    REPUBLISH = "seed's republish on failure"
    RELEASE_REDONE = "counter, release redone"
    STABLE_OFFSET_BARRIER = "barrier at the last stable offset without fencing first"
    END_BEFORE_OFFSETS = "lock end read before offsets"
    ENDS_ASKED_FOR = "ends told by a leader that was replaced"
    LOSS_NOT_NOTICED = "lost topics taken for empty ones"
    NOT_REQUIRE_STABLE = "no require_stable"
    SETTLES_WITHOUT_OFFSETS = "settle without an offset commit"
    FENCED_BY_ID_ALONE = "fencing by transactional id alone"
    RELEASE_SEEN_EARLY = "release seen before it is committed"
    REPARTITIONED = "repartitioned main"


COUNTING = (
    Mistake.DUAL_WRITE,
    Mistake.COUNTED_TWICE,
    Mistake.BUSINESS_KEY,
    Mistake.UUID_AND_COUNTER,
    Mistake.RELEASE_REDONE,
)
WITHOUT_TRANSACTIONS = (Mistake.DUAL_WRITE, Mistake.RELEASE_REDONE)
FRESH = 100  # a uuid: the message's id plus so much for each time it was locked


class Seed(Task):
    """A lock is a number per key."""

    __slots__ = ("counts", "own")
    counts: dict[LaneKey, int]
    own: int  # how often an own record is counted

    def blocked(self) -> Container[LaneKey]:
        return {key for key, count in self.counts.items() if count > 0}

    def confirmed(self, retry_offsets: Mapping[int, int] | None = None) -> None:
        commit = self._commit
        assert commit is not None
        for item in commit.redirected:
            assert item.key is not None
            self.counts[item.key] = self.counts.get(item.key, 0) + self.own
        for message in commit.settled:
            key = self.pending.held[message].key
            assert key is not None
            self.counts[key] = self.counts.get(key, 0) - 1
        super().confirmed(retry_offsets)


class Boolean(Task):
    __slots__ = ("open",)
    open: frozenset[LaneKey]

    def blocked(self) -> Container[LaneKey]:
        return self.pending.by_key.keys() - self.open

    def confirmed(self, retry_offsets: Mapping[int, int] | None = None) -> None:
        commit = self._commit
        assert commit is not None
        released = {self.pending.held[message].key for message in commit.settled}
        locked = {item.key for item in commit.redirected}
        self.open = frozenset(key for key in (self.open | released) - locked if key is not None)
        super().confirmed(retry_offsets)


class Republish(Task):
    __slots__ = ()

    def confirmed(self, retry_offsets: Mapping[int, int] | None = None) -> None:
        commit = self._commit
        assert commit is not None
        again = [message for message in commit.changed if message in self.pending.held]
        super().confirmed(retry_offsets)
        for message in again:
            key = self.pending.held[message].key
            assert key is not None
            ids = self.pending.by_key[key]
            ids.remove(message)
            ids.append(message)
            self.pending.offer(key)


class OtherStartUp(StartUp):
    """Makes another kind of task of what it has read."""

    __slots__ = ("counts", "mistake", "script")
    mistake: Mistake
    script: str
    counts: dict[LaneKey, int]

    def _fold_locks(self, rows: Any) -> None:
        if self.mistake not in COUNTING:
            super()._fold_locks(rows)
            return
        for _offset, key, value in rows:
            named = self.name.offset_of(key)
            of = key if named is None else self.script[named % FRESH].encode()
            self.counts[of] = self.counts.get(of, 0) + (-1 if value is None else 1)

    def _task(self, adopted: Mapping[int, bytes | None]) -> Task:
        if self.mistake not in COUNTING:
            return super()._task(adopted)
        assert self.committed is not None
        held = {
            message: Held(self.script[message].encode(), 0, 0, 0, dead=False, retry_offset=offset)
            for message, offset in self.retries.items()
        }
        return self._running(self.committed.position, held, Stale(), [])

    def _running(
        self, position: int, held: dict[int, Held], stale: Stale, reports: list[Report]
    ) -> Task:
        kinds: dict[Mistake, type[Task]] = {
            Mistake.BOOLEAN: Boolean,
            Mistake.REPUBLISH: Republish,
        }
        kind = Seed if self.mistake in COUNTING else kinds[self.mistake]
        task = kind(
            self.name, self.settings, self.chance, position, self.partitions, Pending.of(held),
            stale, self.orders, reports=reports,
        )  # fmt: skip
        if isinstance(task, Seed):
            task.counts = self.counts
            task.own = 2 if self.mistake is Mistake.COUNTED_TWICE else 1
        elif isinstance(task, Boolean):
            task.open = frozenset()
        return task


def startup_of(mistake: Mistake | None, name: TaskName, settings: Settings, script: str) -> StartUp:
    chance = Random(0)  # no backoff: nobody asks it
    if mistake is None:
        return StartUp(name, settings, chance, partitions=1)
    # Whatever the others lose, W would tell. What comes of it is what one wants to see.
    if mistake not in (*COUNTING, Mistake.BOOLEAN, Mistake.REPUBLISH):
        return StartUp(name, settings, chance, partitions=1, to_run=False)
    startup = OtherStartUp(name, settings, chance, partitions=1, to_run=False)
    startup.mistake, startup.script, startup.counts = mistake, script, {}
    return startup
