"""One key, a main topic that grows from one partition to two, and somebody who goes on reading.

With one partition every message is on 0; with two, new messages of our key go to 1. Each step of a
reader starts a real task on a partition, runs at most one message in one transaction and goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from sexton.base.errors import ConfigError
from sexton.machines.retry_records import TaskName, Watermark
from sexton.machines.retry_rounds import Commit, Outcome
from sexton.machines.retry_settings import (
    Backoff,
    Settings,
    Standing,
    check_growth,
    check_partitions,
)
from sexton.machines.retry_startup import Committed, Ends, LocksRead, RetriesRead, Started, StartUp
from sexton.machines.retry_task import Row, Task

KEY = b"a"
SETTINGS = Settings(backoff=Backoff(0))
FIRST = Watermark(0, 1).encode()
Log = tuple[tuple[bytes, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Growing:
    partitions: int = 1  # of the main topic
    others: int = 1  # of the retry and the lock topic
    main: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # which messages are where
    locks: tuple[Log, Log] = ((), ())
    retries: tuple[Log, Log] = ((), ())
    committed: tuple[tuple[int, str | None], ...] = ((0, FIRST), (0, None))
    handled: tuple[int, ...] = ()
    produced: int = 0
    failures: int = 0

    @property
    def is_wrong(self) -> bool:
        return self.handled != tuple(range(len(self.handled)))


@dataclass(frozen=True, slots=True)
class Reader:
    messages: int
    failures: int
    checks: bool = True

    def moves(self, world: Growing) -> Iterator[tuple[str, Growing]]:
        if world.produced < self.messages:
            where = world.partitions - 1
            main = list(world.main)
            main[where] += (world.produced,)
            grown = replace(world, main=(main[0], main[1]), produced=world.produced + 1)
            yield f"{'ABC'[world.produced]} is written to partition {where}", grown
        if world.partitions == 1:
            yield "the main topic grows", replace(world, partitions=2)
            yield "all three topics grow", replace(world, partitions=2, others=2)
        elif world.others == 1:
            yield "the retry and lock topics grow, too", replace(world, others=2)
        if self.may_read(world):
            for partition in range(world.partitions):
                yield from self._reads(world, partition)

    def may_read(self, world: Growing) -> bool:
        if not self.checks:
            return True
        standings = {
            partition: Standing(position, len(world.main[partition]), Watermark.decode(metadata))
            for partition, (position, metadata) in enumerate(world.committed[: world.partitions])
            if metadata is not None
        }
        try:
            check_partitions(world.partitions, world.others, world.others)
            check_growth(world.partitions, standings)
        except ConfigError:
            return False
        return True

    def _reads(self, world: Growing, partition: int) -> Iterator[tuple[str, Growing]]:
        left = world.main[partition][world.committed[partition][0] :]
        for polled in range(min(1, len(left)) + 1):
            for fails in (False, True) if world.failures < self.failures else (False,):
                after, ran = _read(world, partition, polled, fails)
                if ran is not None or polled:
                    told = "nothing" if ran is None else "ABC"[ran]
                    yield f"{told} of {partition} {'fails' if fails else 'is handled'}", after


def _read(world: Growing, partition: int, polled: int, fails: bool) -> tuple[Growing, int | None]:
    """What the world is then, and which message ran, if any."""
    task = _task(world, partition)
    reaped = task.reap()
    if reaped is not None:
        world = _written(world, partition, reaped)
        task.confirmed()
    messages = world.main[partition]
    offsets = range(task.position, task.position + polled)
    taken = task.begin(0, offsets, [KEY] * polled)
    ran = None
    for item in taken.work[:1]:
        ran = messages[item.id]
        taken.note(item, Outcome.RETRY if fails else Outcome.DONE)
    world = _written(world, partition, task.finish(taken, 0))
    if ran is None:
        return world, None
    if fails:
        return replace(world, failures=world.failures + 1), ran
    return replace(world, handled=(*world.handled, ran)), ran


def _task(world: Growing, partition: int) -> Task:
    startup = StartUp(TaskName("m", partition), SETTINGS, Random(0), world.partitions)
    locks, retries = _rows(world.locks[partition]), _rows(world.retries[partition])
    startup.handle(Committed(*world.committed[partition]))
    startup.handle(Ends(len(locks), len(retries)))
    startup.handle(LocksRead(locks, len(locks)))
    (started,) = startup.handle(RetriesRead(retries, len(retries)))
    assert isinstance(started, Started)
    return started.task


def _rows(log: Log) -> list[Row]:
    return [(offset, key, value) for offset, (key, value) in enumerate(log)]


def _written(world: Growing, partition: int, commit: Commit) -> Growing:
    name = TaskName("m", partition)
    locks, retries = list(world.locks), list(world.retries)
    committed = list(world.committed)
    locks[partition] += tuple((each.key, each.value) for each in commit.locks)
    locks[partition] += tuple((key, None) for key in commit.lock_tombstones)
    retries[partition] += tuple((name.id_of(item.id), b"message") for item in commit.redirected)
    retries[partition] += tuple((key, None) for key in commit.retry_tombstones)
    committed[partition] = (commit.position, commit.metadata)
    return replace(
        world,
        locks=(locks[0], locks[1]),
        retries=(retries[0], retries[1]),
        committed=tuple(committed),
    )


def search_growth(reader: Reader) -> tuple[int, list[str] | None]:
    """States, and the story of the first that is wrong."""
    start = Growing()
    before: dict[Growing, tuple[str, Growing] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        world = waiting.popleft()
        if world.is_wrong:
            story: list[str] = []
            while (step := before[world]) is not None:
                story.append(step[0])
                world = step[1]
            return len(before), story[::-1]
        for name, after in reader.moves(world):
            if after not in before:
                before[after] = (name, world)
                waiting.append(after)
    return len(before), None
