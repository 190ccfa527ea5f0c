"""Chunks of a log to what a read_committed consumer is shown: plain lists, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sexton.base.partitions import TopicPartition
from sexton.client.committed import committed_batches
from sexton.client.replica import Chunk
from sexton.records.columns import Columns
from sexton.records.decoder import decode


@dataclass(frozen=True, slots=True)
class Rows:
    """Records in [start, next_offset), and what the leader said when it sent them."""

    start: int
    next_offset: int
    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    high_watermark: int
    leader_epoch: int  # of the last batch; -1: there is none
    size_bytes: int
    asked_ms: int
    last_stable: int  # up to where there was something to read
    first_epoch: int = -1  # of the first batch

    def __len__(self) -> int:
        return len(self.offsets)


def rows_of(at: TopicPartition, chunk: Chunk, start: int, end: int | None, asked_ms: int) -> Rows:
    """Of a chunk that was asked for from `start` on; rows at or above `end` are left out."""
    shown = list(committed_batches(chunk))
    size = len(chunk.data)
    next_offset = chunk.next_offset if end is None else min(chunk.next_offset, end)
    headers = [batch.header for batch in chunk.batches()]
    epochs = [each.partition_leader_epoch for each in headers if each.base_offset < next_offset]
    epochs = epochs or [-1]
    about = (chunk.high_watermark, max(epochs), size, asked_ms, chunk.last_stable, epochs[0])
    if not shown:
        return Rows(start, next_offset, [], [], [], [], *about)
    whole = sum(len(batch.data) for batch in shown) == size
    data = chunk.data if whole else b"".join(batch.data for batch in shown)
    columns: Columns = decode(data, str(at))
    offset = columns.offset
    wanted = np.flatnonzero((offset >= start) & (offset < next_offset))
    keys, values, times = columns.key, columns.value, columns.timestamp
    if len(wanted) < len(offset):
        keys, values = keys.take(wanted), values.take(wanted)
        offset, times = offset[wanted], times[wanted]
    shown_rows = (offset.tolist(), times.tolist(), keys.to_list(), values.to_list())
    return Rows(start, next_offset, *shown_rows, *about)
