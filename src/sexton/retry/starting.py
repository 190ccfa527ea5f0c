"""One task from assigned to ready: does what `machines.retry_startup` asks for, in its order.

It runs beside the main loop, which goes on polling its paused partitions all the while. So however
long a barrier takes, the group does not lose patience: the loop of rebalances in which every new
owner is thrown out while it is still reading cannot begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import NamedTuple, assert_never

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.epochs import epoch_end
from sexton.client.listing import EARLIEST, LATEST, list_offsets
from sexton.client.retrying import PATIENT, Patience
from sexton.client.transacting import stable_offset
from sexton.machines.retry_columns import Rows
from sexton.machines.retry_records import TaskName
from sexton.machines.retry_settings import Settings
from sexton.machines.retry_startup import (
    Committed,
    Effect,
    Ends,
    Event,
    FetchCommitted,
    InitProducer,
    KeysRead,
    LocksRead,
    MarkEnds,
    ReadKeys,
    ReadTo,
    RetriesRead,
    Started,
    StartUp,
)
from sexton.machines.retry_task import Task
from sexton.retry.reading import mark_end, read_to, retry_records
from sexton.retry.topics import Names

# A predecessor's transaction may hang over the offset until its timeout.
STABLE = Patience(timeout_ms=900_000, backoff_ms=10, most_backoff_ms=250)


class StartedUp(NamedTuple):
    task: Task  # ready to be reaped and run
    tail_from: int  # where the tail of its retry topic begins
    epoch: int  # in which the last message before its position was written; -1: not known


async def start_up(
    client: Client,
    names: Names,
    group: str,
    name: TaskName,
    settings: Settings,
    partitions: int,
    reset: int = EARLIEST,
    main_id: bytes = b"",
    *,
    to_run: bool = False,
    is_whole: bool = False,
) -> StartedUp:
    """One task, as a new owner begins with it.

    `to_run`: whoever only looks need not be able to, and writes nothing. `main_id` is that of the
    main topic, for one who runs what is in it; `is_whole`: nothing of that is compacted away.
    """
    starting = StartUp(name, settings, Random(), partitions, main_id, to_run)
    asking = _Asking(client, names, group, name, reset, to_run, is_whole)
    effects = starting.begin()
    while True:
        (effect,) = effects
        match effect:
            case FetchCommitted():
                effects = starting.handle(await asking.committed())
            case MarkEnds():
                effects = starting.handle(await asking.ends())
            case ReadTo():
                effects = await asking.read(effect, starting)
            case ReadKeys(orphans):
                effects = starting.handle(await asking.keys(orphans))
            case Started(task):
                return await asking.started(task)
            case InitProducer():
                raise AssertionError("one producer for all tasks: it was initialised before")
            case _:
                assert_never(effect)


def metadata_in(text: str) -> str:
    """confluent-kafka sends the byte that ends a string in C along with it."""
    return text.rstrip("\0")


class _Asking:
    def __init__(
        self,
        client: Client,
        names: Names,
        group: str,
        name: TaskName,
        reset: int,
        to_run: bool,
        is_whole: bool,
    ) -> None:
        self._client = client
        self._to_run = to_run
        self._is_whole = is_whole
        self._group = group
        self._reset = reset
        self._name = name
        self._main = TopicPartition(name.topic, name.partition)
        self._locks = TopicPartition(names.locks, name.partition)
        self._retries = TopicPartition(names.retry, name.partition)
        self._has_asked = False
        self._epoch = -1
        self.tail_from = 0

    async def committed(self) -> Committed:
        if self._has_asked:  # in doubt: a coordinator that was replaced would say the same again
            self._client.look_elsewhere()
        self._has_asked = True
        found = await stable_offset(self._client, self._group, self._main, STABLE)
        if found is not None:
            begins = await self._has(found.offset) if self._to_run else 0
            self._epoch = found.leader_epoch
            return Committed(found.offset, metadata_in(found.metadata), begins)
        starts = await list_offsets(self._client, {self._main: self._reset})
        return Committed(starts[self._main], None)

    async def _has(self, position: int) -> int:
        """Where main begins; or PeerError if it ends before the position.

        What is written there now would lie in front of the position, and never be handled. A leader
        that was replaced may say so too: then it passes, and the next start finds out.
        """
        first, last = await asyncio.gather(
            list_offsets(self._client, {self._main: EARLIEST}),
            list_offsets(self._client, {self._main: LATEST}),
        )
        if last[self._main] < position:
            self._client.look_elsewhere()
            raise self._cut(f"ends at {last[self._main]}", position)
        return first[self._main]

    async def started(self, task: Task) -> StartedUp:
        """PeerError if main was cut before the position, however long it has grown since.

        Epochs are those of one topic. If the lock topic does not say that it is this one, somebody
        may have moved the group's offset here, and they count for nothing.
        """
        epoch, position = -1 if task.stale.unnamed else self._epoch, task.position
        if self._to_run and epoch >= 0:
            told = await epoch_end(self._client, self._main, epoch, epoch, PATIENT)
            if told is not None and told.offset < position:
                raise self._cut(f"parts at {told.offset} from what was handled", position)
            if told is not None and told.epoch < epoch and self._is_whole:
                how = f"has nothing of leader epoch {epoch}, in which the last that was handled was"
                raise self._cut(f"{how} written", position)
        return StartedUp(task, self.tail_from, epoch)

    def _cut(self, how: str, position: int) -> PeerError:
        why = f"{how}, and the group {self._group} has committed {position}"
        hint = "was it cut by an unclean election? Stop all instances and set the group's offset"
        return PeerError(str(self._main), why, hint)

    async def ends(self) -> Ends:
        locks, retries = await asyncio.gather(self._end(self._locks), self._end(self._retries))
        self.tail_from = retries
        return Ends(locks, retries)

    async def _end(self, at: TopicPartition) -> int:
        if self._to_run:
            return await mark_end(self._client, at)
        return (await list_offsets(self._client, {at: LATEST}))[at]

    async def read(self, to: ReadTo, starting: StartUp) -> list[Effect]:
        starts = await list_offsets(self._client, {self._locks: EARLIEST, self._retries: EARLIEST})
        found = await asyncio.gather(
            self._read(self._locks, starts[self._locks], to.locks, starting, LocksRead),
            self._read(self._retries, starts[self._retries], to.retries, starting, RetriesRead),
        )
        return [effect for effects in found for effect in effects]

    async def _read(
        self,
        at: TopicPartition,
        start: int,
        end: int,
        starting: StartUp,
        told: Callable[[Rows | list[tuple[int, bytes | None, bytes | None]], int], Event],
    ) -> list[Effect]:
        async for rows, position in read_to(self._client, at, min(start, end), end):
            # The last word is below: a start is over once, when both are at their ends.
            starting.handle(told(rows, min(position, end - 1)))
            if at == self._retries:
                self.tail_from = max(self.tail_from, position)
        return starting.handle(told([], end))

    async def keys(self, orphans: dict[int, int]) -> KeysRead:
        """Of messages whose lock is gone. One that is not there any more: begin again."""
        found = await retry_records(self._client, self._retries, orphans.values())
        keys: dict[int, bytes | None] = {}
        for message, offset in orphans.items():
            name = self._name.id_of(message)
            key, record = found.get(offset, (None, None))
            if key != name or record is None:
                why = f"has changed meanwhile: {name.decode()} is no longer at {offset}"
                raise PeerError(str(self._retries), why)
            keys[message] = record.lock_key
        return KeysRead(keys)
