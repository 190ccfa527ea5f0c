"""What the retry and lock topics hold, as columns, and single messages of the retry topic again.

    mark_end        the end of a partition, as no leader that was replaced can tell it
    read_to         every committed record of [start, end), chunk by chunk: for start-ups and tails
    retry_records   the messages at these offsets of the retry topic, or the first of them
    headers_at      those of one message of the main topic

They go through our own client: a million lock records become a few arrays, not a million objects.
What aborted transactions left is taken out here, as every consumer does; on a chunk without any,
which is nearly each of them, that is one look at the headers of its batches.

A retry record that memory knows of is committed and, while its lock is held, never written again.
So it can be read at its offset without regard to transactions: nobody's open one is in the way.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing

import numpy as np

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.client.committed import committed_batches
from sexton.client.news import asked_around
from sexton.client.reading import PartitionReader
from sexton.client.replica import Chunk, Isolation
from sexton.client.retrying import PATIENT, Patience
from sexton.machines.retry_columns import Rows
from sexton.machines.retry_records import STARTED, Header, RetryRecord
from sexton.records.columns import Columns, read_headers
from sexton.records.decoder import decode
from sexton.records.layout import CONTROL
from sexton.records.tables import field

# An open transaction of a predecessor is waited for as long as its timeout lasts.
WAITING = Patience(timeout_ms=900_000, backoff_ms=10, most_backoff_ms=250)
Messages = dict[int, tuple[bytes, RetryRecord]]  # by offset, the record's key and what is in it
MARK_MS = 2_000  # a leader that has lost its followers does not answer in any time
BACK_BYTES = 1 << 20  # of one look at the retry topic; more of what is wanted may come with it


async def mark_end(client: Client, at: TopicPartition, patience: Patience = WAITING) -> int:
    """Behind a record that is written for that: all that was acknowledged before lies before it.

    It may be written twice, or more often, which nobody minds.
    """

    async def mark() -> int:
        return await append(client, at, [(STARTED, None)], MARK_MS) + 1

    return await asked_around(client, mark, patience)


async def read_to(
    client: Client, at: TopicPartition, start: int, end: int, patience: Patience = WAITING
) -> AsyncGenerator[tuple[Rows, int], None]:
    """Committed records, and the position after them; what follows the last was compacted away."""
    reader = PartitionReader(client, at, patience=patience)
    async with aclosing(reader.read(start, end, isolation=Isolation.READ_COMMITTED)) as chunks:
        async for chunk in chunks:
            yield committed_rows(chunk, at), chunk.next_offset


def committed_columns(chunk: Chunk, at: TopicPartition) -> Columns:
    """Without what was aborted; markers may be among them."""
    if chunk.aborted:
        return decode(b"".join(batch.data for batch in committed_batches(chunk)), str(at))
    return decode(chunk.data, str(at))


def committed_rows(chunk: Chunk, at: TopicPartition) -> Rows:
    columns = committed_columns(chunk, at)
    control = field(columns.headers_of_batches, "attributes") & CONTROL != 0
    if not control.any():
        return Rows(columns.offset, columns.key, columns.value)
    kept = ~control[columns.batch]
    return Rows(columns.offset[kept], columns.key.take(kept), columns.value.take(kept))


async def retry_records(
    client: Client, at: TopicPartition, wanted: Iterable[int], patience: Patience = PATIENT
) -> Messages:
    """What is not there is left out."""
    return (await first_retry_records(client, at, wanted, sys.maxsize, patience))[0]


async def first_retry_records(
    client: Client,
    at: TopicPartition,
    wanted: Iterable[int],
    most_bytes: int,
    patience: Patience = PATIENT,
) -> tuple[Messages, list[int]]:
    """The first ones, one at least, until they have so many bytes; and which were not looked for.

    What is not there is in neither.
    """
    left = sorted(set(wanted))
    found: Messages = {}
    size = 0
    reader = PartitionReader(client, at, patience=patience)
    while left:
        reached = left[0] + 1
        reading = reader.read(left[0], left[0] + 1, chunk_bytes=BACK_BYTES)
        async with aclosing(reading) as chunks:
            async for chunk in chunks:
                columns = decode(chunk.data, str(at))
                for offset, bytes_of, message in _messages(columns, left):
                    found[offset] = message
                    size += bytes_of
                    if size >= most_bytes:
                        return found, [each for each in left if each > offset]
                reached = max(reached, chunk.next_offset)
        left = [offset for offset in left if offset >= reached]
    return found, []


async def headers_at(client: Client, at: TopicPartition, offset: int) -> tuple[Header, ...]:
    """With U+FFFD in names that are not UTF-8."""
    async with aclosing(PartitionReader(client, at).read(offset, offset + 1)) as chunks:
        async for chunk in chunks:
            columns = decode(chunk.data, str(at))
            for row in np.flatnonzero(columns.offset == offset).tolist():
                return read_headers(columns.headers[row])
    raise PeerError(str(at), f"no longer has a message at {offset}")


def _messages(
    columns: Columns, wanted: list[int]
) -> Iterator[tuple[int, int, tuple[bytes, RetryRecord]]]:
    """Of each its offset, its size and itself."""
    rows = np.flatnonzero(np.isin(columns.offset, np.array(wanted, np.int64)))
    for row in rows.tolist():
        key, value = columns.key[row], columns.value[row]
        if key is None or value is None:
            continue
        headers = columns.headers[row] or b""
        record = RetryRecord.decode(value, read_headers(headers))
        yield int(columns.offset[row]), len(value) + len(headers), (key, record)
