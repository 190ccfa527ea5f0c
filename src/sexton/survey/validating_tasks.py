"""One partition of a topic, read from its leader and judged: the unit of work of a validation.

A task is a few words, and so is its result, but for the bits of ids (`audit.across`). It may be run
twice and does no harm. A leader that goes away is waited for (`client.reading`). Where retention
deletes what is being read, it begins anew where the log begins now, and says so (`Later`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from sexton.audit.across import CandidateFold, Candidates, empty_sketch
from sexton.audit.checks import MOST_SIGHTINGS
from sexton.audit.fields import Rows
from sexton.audit.losing import LossFold
from sexton.audit.ordering import OrderFold
from sexton.audit.settling import Settling
from sexton.audit.validating import Validating
from sexton.audit.validation import PartitionFacts, Rules, Sighting
from sexton.base.errors import ConfigError, CorruptLog, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.reading import NO_ID, OffsetsGone, PartitionReader
from sexton.client.replica import Chunk, Isolation
from sexton.client.retrying import Patience
from sexton.client.settings import client_config
from sexton.records.decoder import Decoder, scan
from sexton.records.layout import CONTROL
from sexton.records.tables import Array, field
from sexton.survey.places import aborted_of

PATIENCE = Patience(timeout_ms=30_000)
MOST_STARTS = 5  # of one read; a log that is deleted faster than we read it cannot be read
Starts = dict[TopicPartition, int]  # where partitions were read from that have lost their beginning
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Where:
    """How to reach the brokers; small enough to be sent."""

    bootstrap_servers: str
    settings: tuple[tuple[str, str], ...] = ()
    max_bytes_per_s: float | None = None

    def client(self) -> Client:
        config = client_config(dict(self.settings))
        return Client(self.bootstrap_servers, replace(config, max_bytes_per_s=self.max_bytes_per_s))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets [start, end) of one partition; beyond `end` to `tail` nothing is decided yet."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: bytes = NO_ID
    tail: int = 0

    @property
    def size(self) -> int:
        return max(self.end, self.tail) - self.start

    def beginning(self, start: int) -> Stretch:
        """What is left of it if the log begins there."""
        if start <= self.start:
            return self
        return replace(self, start=start, end=max(self.end, start))


@dataclass(frozen=True, slots=True)
class ValidateTask:
    where: Where
    stretch: Stretch
    rules: Rules
    seed: int
    most_keys: int
    sketch_bits: int = 0  # 0: nobody asks for ids across partitions

    @property
    def size(self) -> int:
        return self.stretch.size

    async def carry_out(self, starts: Starts) -> Folded:
        async with self.where.client() as client:
            return await what_is_left(
                self.stretch, starts, lambda stretch: _validate(client, self, stretch)
            )


@dataclass(frozen=True, slots=True)
class CandidateTask:
    """The second round for ids that two partitions may have."""

    where: Where
    stretch: Stretch
    rules: Rules
    seed: int
    bits: bytes

    @property
    def size(self) -> int:
        return self.stretch.size

    async def carry_out(self, starts: Starts) -> Candidates:
        async with self.where.client() as client:
            return await what_is_left(
                self.stretch, starts, lambda stretch: _candidates(client, self, stretch)
            )


@dataclass(frozen=True, slots=True)
class OrderTask:
    """One partition of the output beside all of the source, as far as it is needed."""

    where: Where
    stretch: Stretch
    rules: Rules
    seed: int
    source: tuple[Stretch, ...]

    @property
    def size(self) -> int:
        return self.stretch.size + self.source[0].size if self.source else self.stretch.size

    async def carry_out(self, starts: Starts) -> Ordered:
        async with self.where.client() as client:
            return await _order(client, self, starts)


@dataclass(frozen=True, slots=True)
class LossTask:
    """One partition of the source beside all of the output, as far as it is needed."""

    where: Where
    stretch: Stretch
    rules: Rules
    seed: int
    output: tuple[Stretch, ...]
    settled_ms: int | None = None  # records of the source from then on may be on their way

    @property
    def size(self) -> int:
        return self.stretch.size

    async def carry_out(self, starts: Starts) -> Missed:
        async with self.where.client() as client:
            return await _losses(client, self, starts)


class Task(Protocol):
    """What a runner carries out; those of a table are in `validating_table`."""

    @property
    def stretch(self) -> Stretch: ...
    @property
    def size(self) -> int: ...
    async def carry_out(self, starts: Starts) -> Any: ...


@dataclass(frozen=True, slots=True)
class Folded:
    facts: PartitionFacts
    sketch: bytes = b""


@dataclass(frozen=True, slots=True)
class Ordered:
    sightings: tuple[Sighting, ...]
    count: int
    unknown: int  # records whose id is not in the source
    judged: int  # records whose place in the source is known


@dataclass(frozen=True, slots=True)
class Missed:
    sightings: tuple[Sighting, ...]
    count: int
    unreadable: int  # records of the source without an id
    judged: int  # records of the source that there is an answer for
    unsettled: int = 0  # and those that are not there, but may be on their way


@dataclass(frozen=True, slots=True)
class Later:
    """What was found in partitions of which some have lost their beginning meanwhile."""

    found: Any
    starts: Starts


@dataclass(frozen=True, slots=True)
class Failed:
    """The partition could not be read."""

    why: str


@dataclass(frozen=True, slots=True)
class Misread:
    """An expression finds nothing in a record: nobody can go on before the user has decided."""

    subject: str
    why: str
    hint: str | None


def run_task(task: Task) -> Any:
    """Where nothing else runs: a worker's process."""
    return asyncio.run(carry_out(task))


async def carry_out(task: Task) -> Any:
    """What the task makes of it, maybe as Later; or Failed, or Misread."""
    starts: Starts = {}
    try:
        found = await task.carry_out(starts)
        return Later(found, starts) if starts else found
    except ConfigError as error:
        return Misread(error.subject, error.why, error.hint)
    except SextonError as error:
        return Failed(f"{error.subject}: {error.why}")


async def what_is_left(
    stretch: Stretch, starts: Starts, read: Callable[[Stretch], Awaitable[T]]
) -> T:
    """Reads it; anew from where the log begins if retention was faster, as noted in `starts`.

    Whoever reads it once is given nothing twice: what was read before lay before the new start.
    """
    for _ in range(MOST_STARTS - 1):
        try:
            return await read(stretch)
        except OffsetsGone as gone:
            if gone.log_start <= stretch.start:
                raise
            stretch = stretch.beginning(gone.log_start)
            starts[stretch.partition] = stretch.start
    return await read(stretch)


# ── a partition against its rules ──


async def _validate(client: Client, task: ValidateTask, stretch: Stretch) -> Folded:
    folded = Validating(
        stretch.partition, task.rules, start=stretch.start, end=max(stretch.end, stretch.tail),
        seed=task.seed, most_keys=task.most_keys,
    )  # fmt: skip
    if task.sketch_bits:
        folded.sketch = empty_sketch(task.sketch_bits)
    while True:
        await read_into(client, stretch, task.rules, folded)
        if not folded.again():
            break
    sketch = folded.sketch.tobytes() if folded.sketch is not None else b""
    return Folded(folded.facts(), sketch)


async def read_into(client: Client, stretch: Stretch, rules: Rules, folded: Validating) -> None:
    """One reading of a stretch."""
    async for chunk in chunks(client, stretch, committed=_decides(rules)):
        folded.take(chunk.data, list(aborted_of(chunk)), end=stretch.end)
    if stretch.tail > stretch.end:
        beyond = replace(stretch, start=max(stretch.start, stretch.end), end=stretch.tail)
        async for chunk in chunks(client, beyond, committed=False):
            folded.take(chunk.data, (), start=beyond.start, undecided=True)


def _decides(rules: Rules) -> bool:
    """Are outcomes of transactions needed? Then what is read ends at the last stable offset."""
    return rules.committed or rules.compare_isolation


async def chunks(client: Client, stretch: Stretch, *, committed: bool) -> AsyncIterator[Chunk]:
    reader = PartitionReader(
        client, stretch.partition, topic_id=stretch.topic_id, patience=PATIENCE
    )
    isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    async with aclosing(reader.read(stretch.start, stretch.end, isolation=isolation)) as parts:
        async for chunk in parts:
            yield chunk


# ── rows alone ──


async def _candidates(client: Client, task: CandidateTask, stretch: Stretch) -> Candidates:
    sketch = np.frombuffer(task.bits, np.uint64)
    found = CandidateFold(stretch.partition, task.rules, sketch, task.seed)
    await read_rows(client, stretch, task.rules.committed, found.take_rows)
    return found.candidates()


async def _order(client: Client, task: OrderTask, starts: Starts) -> Ordered:
    committed = task.rules.committed

    async def output(stretch: Stretch) -> OrderFold:
        order = OrderFold(stretch.partition, task.rules, task.seed)
        await read_rows(client, stretch, committed, order.take_output)
        return order

    order = await what_is_left(task.stretch, starts, output)
    order.begin_source()
    # Where an id was in the source stays true when it has been deleted there.
    unknown = await _look_through(
        client, task, task.source, starts, order.take_source, lambda: order.unknown
    )
    sightings, count = order.sightings(MOST_SIGHTINGS)
    return Ordered(tuple(sightings), count, unknown, order.judged)


async def _losses(client: Client, task: LossTask, starts: Starts) -> Missed:
    committed = task.rules.committed

    async def source(stretch: Stretch) -> LossFold:
        loss = LossFold(stretch.partition, task.rules, task.seed, task.settled_ms)
        await read_rows(client, stretch, committed, loss.take_source)
        return loss

    loss = await what_is_left(task.stretch, starts, source)
    loss.begin_output()
    # An id that was there has not been lost, even if it has been deleted there meanwhile.
    missing = await _look_through(
        client, task, task.output, starts, loss.take_output, lambda: loss.missing
    )
    sightings, unsettled = loss.sightings(MOST_SIGHTINGS), loss.unsettled
    lost = missing - unsettled
    return Missed(tuple(sightings), lost, loss.unreadable, loss.judged, unsettled)


async def _look_through(
    client: Client,
    task: OrderTask | LossTask,
    others: tuple[Stretch, ...],
    starts: Starts,
    take: Callable[[Rows], None],
    missing: Callable[[], int],
) -> int:
    """Reads the other topic until nothing is missing; how much still is at its end."""
    # A key mostly lies in the partition of the same number: then one of them is enough.
    number, left = task.stretch.partition.partition, missing()
    for stretch in sorted(others, key=lambda each: each.partition.partition != number):
        if not left:
            break
        await what_is_left(
            stretch, starts, lambda rest: read_rows(client, rest, task.rules.committed, take)
        )
        left = missing()
    return left


async def read_rows(
    client: Client, stretch: Stretch, committed: bool, take: Callable[[Rows], None]
) -> int:
    """The records of a stretch that a consumer is shown; returns the bytes that were read.

    CorruptLog if a batch is damaged: whoever wants the last record of each key must not miss one.
    """
    decoder, settling = Decoder(), Settling()
    size = 0
    async for chunk in chunks(client, stretch, committed=committed):
        batches = scan(chunk.data)
        if batches.fault is not None:
            raise CorruptLog(str(stretch.partition), batches.fault)
        size += len(chunk.data)
        visible: Array = (field(batches.headers, "attributes") & CONTROL) == 0
        if committed:
            visible &= settling.take(batches, list(aborted_of(chunk))).visible == 1
        first = 0
        for columns, bad in decoder.parts(batches, str(stretch.partition)):
            for each in bad:
                raise CorruptLog(f"the batch at offset {each.base_offset}", each.why)
            stop = first + len(columns.headers_of_batches)
            inside = (columns.offset >= stretch.start) & (columns.offset < stretch.end)
            shown = np.repeat(visible[first:stop], np.diff(columns.first_row))
            chosen = np.flatnonzero(shown & inside)
            if len(chosen):
                take(Rows(columns, chosen, stretch.partition))
            first = stop
    return size
