"""What the driver of a retry pipeline reads: what is pending, what came since, and payloads.

    start_up    every task, after the sink's epoch has fenced whoever was here before
    tail        what was written to the retry topic since: our own records and commands
    payloads    messages that are to be tried again, at their offsets

The order of a start is that of the machine (`machines.retry_startup`), and its proof: the fence,
the group's offsets, a record of ours at the ends, and then everything that is committed before it.
On Spark one query owns every partition, so one fence is for all tasks.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from sexton.base.errors import CorruptLog
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.listing import EARLIEST, LATEST, list_offsets
from sexton.client.retry_reading import first_retry_records, mark_end, read_to
from sexton.client.retrying import Patience
from sexton.client.transacting import stable_offset
from sexton.machines.retry_columns import Rows
from sexton.machines.retry_records import RetryRecord, TaskName, Watermark
from sexton.machines.retry_settings import Settings, Standing, check_growth
from sexton.machines.retry_startup import (
    Committed,
    Effect,
    Ends,
    Event,
    FetchCommitted,
    Initialised,
    InitProducer,
    LocksRead,
    MarkEnds,
    ReadTo,
    RetriesRead,
    Started,
    StartUp,
)
from sexton.machines.retry_task import Task
from sexton.spark.retry_rules import RETRY_RULES, RetryRules
from sexton.spark.retry_topics import Topics

TELL_AGAIN_MS = 3_600_000  # far below any offsets.retention.minutes, and one request in an hour


@dataclass(slots=True, eq=False)
class Owned:
    """One partition of the main topic, as the driver knows it."""

    task: Task
    tail_from: int  # of the retry topic
    told: tuple[int, Watermark] | None = None  # the offset that was committed last
    told_at_ms: int = 0

    def is_told(self, position: int, watermark: Watermark, now_ms: int) -> bool:
        """Does the group have it already, and will Kafka keep it until we come again?

        Kafka forgets what nobody has committed for `offsets.retention.minutes`, partition by
        partition: in one that gets no rows the position is the same for weeks.
        """
        is_fresh = now_ms - self.told_at_ms < TELL_AGAIN_MS
        return is_fresh and self.told == (position, watermark)

    def has_read_all_that_waits(self) -> None:
        """The position may be gone (a query that stood still for long), but not what it was past.

        For whoever takes up a checkpoint: what waits came with earlier batches, and Spark does not
        read these again. At a position in front of it, it would wait for new rows to pass it by.
        """
        task = self.task
        task.position, task.ahead = max(task.position, task.ahead + 1), -1


@dataclass(frozen=True, slots=True)
class Reading:
    client: Client
    topics: Topics
    group: str
    patience: Patience
    rules: RetryRules = RETRY_RULES

    # ── the start ──

    async def start_up(
        self, settings: Settings, partitions: int, *, growth_accepted: bool = False
    ) -> dict[int, Owned]:
        """Only after the fence, which is the first thing that the machine asks for."""
        if not growth_accepted:
            await self._check_growth(partitions)
        started = [self._start(settings, number, partitions) for number in range(partitions)]
        return dict(enumerate(await asyncio.gather(*started)))

    async def _check_growth(self, partitions: int) -> None:
        main = [TopicPartition(self.topics.main, number) for number in range(partitions)]
        ends = await list_offsets(self.client, dict.fromkeys(main, LATEST), patience=self.patience)
        standings = {}
        for at in main:
            found = await self._committed(at)
            if found.metadata is not None:
                watermark = Watermark.decode(found.metadata)
                standings[at.partition] = Standing(found.position, ends[at], watermark)
        check_growth(partitions, standings)

    async def _start(self, settings: Settings, number: int, partitions: int) -> Owned:
        name = TaskName(self.topics.main, number)
        # Who does not read what waits would be told so, and would not get to show what comes of it.
        starting = StartUp(name, settings, Random(), partitions, to_run=self.rules.remembers)
        retries = TopicPartition(self.topics.retry, number)
        locks = TopicPartition(self.topics.locks, number)
        effects, tail_from = starting.begin(), 0
        while True:
            (effect,) = effects
            match effect:
                case InitProducer():
                    effects = starting.handle(Initialised())
                case FetchCommitted():
                    at = TopicPartition(self.topics.main, number)
                    effects = starting.handle(await self._committed(at))
                case MarkEnds():
                    ends = await asyncio.gather(
                        mark_end(self.client, locks, self.patience),
                        mark_end(self.client, retries, self.patience),
                    )
                    tail_from = ends[1]
                    effects = starting.handle(Ends(*ends))
                case ReadTo():
                    await self._read_all(starting, locks, effect.locks, LocksRead)
                    effects = await self._read_all(starting, retries, effect.retries, RetriesRead)
                case Started(task):
                    return Owned(task, tail_from)
                case _:
                    raise AssertionError("keys are asked for without transactions only")

    async def _committed(self, at: TopicPartition) -> Committed:
        found = await stable_offset(self.client, self.group, at, self.patience)
        return Committed(0, None) if found is None else Committed(found.offset, found.metadata)

    async def _read_all(
        self,
        starting: StartUp,
        at: TopicPartition,
        end: int,
        told: Callable[[Rows | list[tuple[int, bytes | None, bytes | None]], int], Event],
    ) -> list[Effect]:
        if not self.rules.remembers:
            return starting.handle(told([], end))
        begins = await list_offsets(self.client, {at: EARLIEST}, patience=self.patience)
        rows_of = read_to(self.client, at, min(begins[at], end), end, self.patience)
        async for rows, _position in rows_of:
            starting.handle(told(rows, 0))  # where it stands is said at the end
        return starting.handle(told([], end))

    # ── between batches ──

    async def tails(self, owned: dict[int, Owned]) -> None:
        """To the high watermark: the markers of our own last transaction are waited for."""
        places = {TopicPartition(self.topics.retry, number): number for number in owned}
        ends = await list_offsets(
            self.client, dict.fromkeys(places, LATEST), patience=self.patience
        )
        await asyncio.gather(
            *(self._tail(at, owned[number], ends[at]) for at, number in places.items())
        )

    async def _tail(self, at: TopicPartition, owned: Owned, end: int) -> None:
        if owned.tail_from >= end:
            return
        async for rows, _position in read_to(self.client, at, owned.tail_from, end, self.patience):
            told = zip(rows.offset.tolist(), range(len(rows.offset)), strict=True)
            owned.task.tail(
                (offset, rows.key[row], rows.value[row])
                for offset, row in told
                if owned.tail_from <= offset < end
            )
        owned.tail_from = end

    # ── payloads ──

    async def payloads(
        self, name: TaskName, wanted: Iterable[tuple[int, int]], most_bytes: int = sys.maxsize
    ) -> dict[int, RetryRecord]:
        """By id; `wanted` are ids and offsets. They are committed, or nobody would know of them.

        Of more than `most_bytes`, those that were written first (`first_retry_records`).
        """
        at = TopicPartition(self.topics.retry, name.partition)
        offsets = {offset: message for message, offset in wanted}
        read, left = await first_retry_records(self.client, at, offsets, most_bytes, self.patience)
        for offset in left:
            del offsets[offset]
        found = {}
        for offset, message in offsets.items():
            key, record = read.get(offset, (None, None))
            if key != name.id_of(message) or record is None:
                why = f"has no record of {name.id_of(message).decode()}, which waits"
                raise CorruptLog(str(at), why)
            found[message] = record
        return found
