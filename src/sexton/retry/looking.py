"""What a group's retry and lock topics hold, seen from outside; nothing here changes anything.

It is read the way a new owner would read it (`starting`), so an operator sees what an instance will
see: which messages wait and for what, which locks are stale, which retry records have no lock. The
instances go on meanwhile; what is shown was true at some moment since the command began.

A commit may come between the looks at two topics, so that the lock of a message is seen and its
record is not, or the other way round. What is stale or an orphan stays so until somebody does
something about it; so it is shown if a second look finds it again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sexton.base.errors import ConfigError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.listing import EARLIEST, LATEST, list_offsets
from sexton.client.reading import PartitionReader
from sexton.client.replica import Isolation
from sexton.machines.retry_columns import Rows, last_of_each
from sexton.machines.retry_pending import Held
from sexton.machines.retry_records import REASON, TaskName
from sexton.machines.retry_settings import Mode, Settings
from sexton.machines.retry_task import Task
from sexton.records.columns import read_headers
from sexton.retry.letters import Letters, read_letters
from sexton.retry.reading import committed_columns
from sexton.retry.starting import start_up
from sexton.retry.topics import Names, Shape, check

FEW = 1000  # messages that are quickly read
NEWEST = 10_000  # dead letters of a partition, for whoever only wants to know how many are open


@dataclass(frozen=True, slots=True)
class Lock:
    """One message that waits."""

    name: TaskName
    id: int
    held: Held
    behind: int | None  # the message of its key that comes first; None: it is the first
    reason: str

    @property
    def text(self) -> str:
        return self.name.id_of(self.id).decode()


@dataclass(frozen=True, slots=True)
class Seen:
    """One partition."""

    name: TaskName
    task: Task  # as a new owner would begin with it; reap() was not called
    end: int  # of the main topic

    @property
    def lag(self) -> int:
        return max(0, self.end - self.task.position)


async def look(
    client: Client, names: Names, group: str, mode: Mode = "transactional"
) -> list[Seen]:
    """Every partition, or ConfigError if the topics are not those of an ordered retry.

    `mode` is that of the service. Nothing on the cluster says how its next instance will run.
    """
    shape = await _shape(client, names)
    partitions = range(shape.partitions)
    main = [TopicPartition(names.main, number) for number in partitions]
    ends = await list_offsets(client, dict.fromkeys(main, LATEST))

    async def task_at(at: TopicPartition) -> Task:
        name, settings = TaskName(*at), Settings(mode=mode)
        return (await start_up(client, names, group, name, settings, shape.partitions)).task

    async def seen(at: TopicPartition) -> Seen:
        task = await task_at(at)
        if _doubtful(task):
            task = _in_both(task, await task_at(at))
        return Seen(task.name, task, ends[at])

    return await asyncio.gather(*map(seen, main))


def _doubtful(task: Task) -> set[int]:
    """What is seen of these does not fit together."""
    return {*task.stale.locks, *task.stale.retries, *task.orders.orphans}


def _in_both(first: Task, task: Task) -> Task:
    """The second one, without what is in doubt there for the first time."""
    passing = _doubtful(task) - _doubtful(first)
    stale, orphans = task.stale, task.orders.orphans
    stale.locks = [each for each in stale.locks if each not in passing]
    stale.retries = [each for each in stale.retries if each not in passing]
    task.orders.orphans = {each: at for each, at in orphans.items() if each not in passing}
    task.reports = [each for each in task.reports if each.id not in passing]
    return task


async def look_with_letters(
    client: Client,
    names: Names,
    group: str,
    mode: Mode = "transactional",
    newest: int | None = None,
) -> list[tuple[Letters, Seen]]:
    """With the dead letters, which are read first: what was held then either waits still or was
    settled, while a lock that came later would make its letter look settled. `newest` is how many
    of each partition, at most."""
    shape = await _shape(client, names)
    partitions = [TaskName(names.main, number) for number in range(shape.partitions)]
    reading = (read_letters(client, names, name, newest=newest) for name in partitions)
    letters = await asyncio.gather(*reading)
    return list(zip(letters, await look(client, names, group, mode), strict=True))


async def lag_of(client: Client, seen: Seen) -> int:
    """Messages of the main topic that were not read yet.

    Offsets are counted where that is many. Where it is few, what nobody is ever shown is not: the
    marker of a transaction may be the last in the topic, and it would look as if one were left.
    """
    if not 0 < seen.lag <= FEW:
        return seen.lag
    at, start = TopicPartition(seen.name.topic, seen.name.partition), seen.task.position
    shown = 0
    try:
        stable = (await list_offsets(client, {at: LATEST}, Isolation.READ_COMMITTED))[at]
        end = max(start, min(stable, seen.end))
        reader = PartitionReader(client, at)
        async for chunk in reader.read(start, end, isolation=Isolation.READ_COMMITTED):
            columns = committed_columns(chunk, at)
            within = (columns.offset >= start) & (columns.offset < end)
            shown += int((within & ~columns.is_control).sum())
    except Refused:  # not everybody who looks may read messages, and the first may be deleted
        return seen.lag
    return shown + seen.end - end


async def _shape(client: Client, names: Names) -> Shape:
    topics = (await client.topology([names.main, *names.beside])).topics
    missing = [name for name in (names.main, *names.beside) if name not in topics]
    if missing:
        hint = "was it ever started? give --topic and --group as the service does"
        raise ConfigError(", ".join(missing), "there is no such topic", hint)
    return await check(client, names)


def locks_of(seen: Seen, reasons: dict[int, str] | None = None) -> list[Lock]:
    """In order; the reason is that of the last failure, if it was read."""
    pending = seen.task.pending
    found = []
    for ids in pending.by_key.values():
        for place, waits in enumerate(ids):
            reason = (reasons or {}).get(waits, "")
            behind = None if place == 0 else ids[0]
            found.append(Lock(seen.name, waits, pending.held[waits], behind, reason))
    return sorted(found, key=lambda lock: lock.id)


async def reasons(client: Client, names: Names, name: TaskName) -> dict[int, str]:
    """Why each message that waits failed last; it is a header of its lock."""
    at = TopicPartition(names.locks, name.partition)
    start = (await list_offsets(client, {at: EARLIEST}))[at]
    end = (await list_offsets(client, {at: LATEST}, Isolation.READ_COMMITTED))[at]
    found: dict[int, str] = {}
    reader = PartitionReader(client, at)
    async for chunk in reader.read(start, end, isolation=Isolation.READ_COMMITTED):
        columns = committed_columns(chunk, at)
        last = last_of_each(name, Rows(columns.offset, columns.key, columns.value))
        for gone in last.gone_of(found):
            found.pop(gone, None)
        for waits, row in zip(last.live, last.live_rows.tolist(), strict=True):
            headers = dict(read_headers(columns.headers[row]))
            found[waits] = (headers.get(REASON) or b"").decode(errors="replace")
    return found


def task_of(names: Names, text: str) -> tuple[TaskName, int]:
    """`orders-3-17`, as everything here calls a message."""
    topic, _, offset = text.rpartition("-")
    at = TopicPartition.from_directory(topic) if topic else None
    if at is None or at.topic != names.main or not offset.isdecimal():
        hint = f"as in {names.main}-0-17, which `sexton retry locks` shows"
        raise ConfigError(text, "does not name a message of this topic", hint)
    return TaskName(at.topic, at.partition), int(offset)
