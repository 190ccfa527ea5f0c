"""One replica of one partition, read from end to end and folded: the unit of work of an audit.

A task is a few words, and so is its result; between them lie gigabytes that stay where the task
runs. A connection that breaks is made anew and the read goes on where it was; what cannot be read
in the end is a `Failed`, never a result that looks whole. A broker that is away costs the patience
of one task, not of each: those that come right after it do not wait for it again.

Retention may delete what is to be read, or was read already. Then the fold begins anew where the
log begins now: nothing that it has seen is there any more.

A task that is run twice (Spark repeats one whose executor died) reads twice and does no harm.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from sexton.audit.facts import AbortedSpan, BucketEntries, ReplicaFacts, Scope
from sexton.audit.fold import MOST_KEYS, Fold
from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.client.connection import NoAnswer
from sexton.client.replica import Chunk
from sexton.client.retrying import Patience, Trying, until_it_works
from sexton.survey.places import Place, Reader, aborted_of, open_place

PATIENCE = Patience(timeout_ms=15_000)  # with a broker that is away
RECENTLY_S = 5.0  # so long after one task has given a broker up, others do not even try
MOST_STARTS = 5  # of one read; a log that is deleted faster than we read it cannot be read


@dataclass(frozen=True, slots=True)
class FoldTask:
    scope: Scope
    place: Place
    buckets: frozenset[int] | None = None  # None: digests of all, else entries of these
    spans: tuple[AbortedSpan, ...] = ()  # aborted elsewhere: is any data of them shown here?
    max_bytes_per_s: int | None = None
    most_keys: int | None = None
    floor: int = 0  # of entries: fingerprints below it were asked for already
    size: int = 0  # about how many bytes there are to read; 0: nobody knows


@dataclass(frozen=True, slots=True)
class Failed:
    why: str
    silent: bool = False  # nobody answered, or not all yet: later somebody may


Result = ReplicaFacts | BucketEntries | Failed


_given_up: dict[Place, float] = {}  # in this process: when that was


def run_task(task: FoldTask) -> Result:
    """Where nothing else runs: a worker's thread or process."""
    return asyncio.run(carry_out(task))


async def carry_out(task: FoldTask) -> Result:
    limit = task.max_bytes_per_s
    if time.monotonic() - _given_up.get(task.place, -RECENTLY_S) < RECENTLY_S:
        return Failed(f"{task.place}: does not answer", silent=True)
    try:
        async with open_place(task.place, task.scope.partition, max_bytes_per_s=limit) as reader:
            found = await _fold(task, reader)
            return _too_short(task, found) or found
    except SextonError as error:
        silent = isinstance(error, NoAnswer)
        if silent:
            _given_up[task.place] = time.monotonic()
        return Failed(f"{error.subject}: {error.why}", silent)


def _too_short(task: FoldTask, found: ReplicaFacts | BucketEntries) -> Failed | None:
    """Did its log end before the offset to which it is to be compared, and had come before?

    Nobody compares it then, so it must not be said to agree. A follower that was killed begins with
    a high watermark that is some seconds old, and is well a moment later; a log that was cut by an
    unclean election is not. What is damaged is told as that.
    """
    facts = found.facts if isinstance(found, BucketEntries) else found
    if facts.read_to >= task.scope.end or facts.damage:
        return None
    why = f"ends at offset {facts.read_to}, and was known to reach {task.scope.end}"
    return Failed(f"{task.place}: {why}", silent=True)


async def _fold(task: FoldTask, reader: Reader) -> ReplicaFacts | BucketEntries:
    start = task.scope.start
    for _ in range(MOST_STARTS - 1):
        try:
            return await _fold_from(start, task, reader)
        except Refused as error:
            if error.error is not KafkaError.OFFSET_OUT_OF_RANGE:
                raise
            log_start = (await until_it_works(reader.offsets, PATIENCE)).log_start
            if log_start <= start:
                raise
            start = log_start
    return await _fold_from(start, task, reader)


async def _fold_from(start: int, task: FoldTask, reader: Reader) -> ReplicaFacts | BucketEntries:
    most_keys = MOST_KEYS if task.most_keys is None else task.most_keys
    fold = Fold(
        task.scope,
        buckets=task.buckets,
        spans=task.spans,
        most_keys=most_keys,
        floor=task.floor,
    )
    read_to = start
    while True:
        async for chunk in _steadily(reader, start):
            fold.take(chunk.data, list(aborted_of(chunk)))
            read_to = chunk.next_offset
        if not fold.again():
            break
    stands = await until_it_works(reader.offsets, PATIENCE)
    offsets = {
        "log_start": stands.log_start,
        "last_stable": stands.last_stable,
        "high_watermark": stands.high_watermark,
        "log_end": stands.log_end,
        "read_to": read_to,
    }
    if task.buckets is not None:
        return fold.entries(task.place.node, **offsets)
    opened = await until_it_works(reader.open_transactions, PATIENCE)
    return fold.facts(task.place.node, **offsets, open=opened)


async def _steadily(reader: Reader, start: int) -> AsyncIterator[Chunk]:
    """Chunks from `start` on, over as many connections as it takes."""
    position, trying = start, Trying(PATIENCE)
    while True:
        try:
            async for chunk in reader.read(position):
                yield chunk
                position = chunk.next_offset
                trying.works()
            return
        except (PeerError, Refused) as error:
            await trying.pause(error)
