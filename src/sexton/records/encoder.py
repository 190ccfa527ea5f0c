"""Columns to bytes, the way Kafka's own code writes them.

    rows ──plan──▶ one header a batch, and which rows are in it ──encode──▶ record batches

`encode` takes every field it cannot work out from the header it is given and works out the rest:
batch_length, crc, records_count. So `encode(decode(b))` is `b` for uncompressed bytes that Kafka
wrote, and a caller that has changed the rows or the header fields gets what Kafka would write then.
"""

from __future__ import annotations

import numpy as np

from sexton.records.codecs import deflate
from sexton.records.columns import Columns, Spans
from sexton.records.layout import (
    CODEC_MASK,
    HEADER_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Codec,
)
from sexton.records.tables import HEADER_TYPE, Array, field

BATCH_BYTES = 16384  # the Java producer's batch.size
_CODEC_AT = 22  # the low byte of a batch's attributes


def rows(
    timestamp: Array,
    key: Spans,
    value: Spans,
    headers: Spans | None = None,
    *,
    base_offset: int = 0,
    batch_bytes: int = BATCH_BYTES,
    batch_rows: int | None = None,
    codec: Codec = Codec.NONE,
    attributes: int = 0,
) -> Columns:
    """Rows that were never in a log, planned into batches: offsets count up from `base_offset`.

    A batch holds at most `batch_rows` rows and, before compression, at most `batch_bytes` bytes
    (a single larger record has a batch of its own). It has no producer until someone sets one.
    """
    count = len(timestamp)
    if headers is None:
        zero = np.zeros(1, np.uint8)
        headers = Spans(zero, np.zeros(count, np.int32), np.ones(count, np.int32))
    offset = np.arange(base_offset, base_offset + count, dtype=np.int64)
    time = np.ascontiguousarray(timestamp, np.int64)
    first_row = _plan(offset, time, key, value, headers, batch_bytes, batch_rows or count or 1)
    starts, ends = first_row[:-1], first_row[1:]
    table = np.zeros(len(starts), HEADER_TYPE)
    table["base_offset"] = offset[starts]
    table["partition_leader_epoch"] = NO_LEADER_EPOCH
    table["magic"] = MAGIC
    table["attributes"] = attributes | codec
    table["last_offset_delta"] = ends - starts - 1
    table["base_timestamp"] = time[starts]
    table["max_timestamp"] = np.maximum.reduceat(time, starts) if count else 0
    table["producer_id"] = NO_PRODUCER_ID
    table["producer_epoch"] = NO_PRODUCER_EPOCH
    table["base_sequence"] = NO_SEQUENCE
    return Columns(table, first_row, offset, time, key, value, headers)


def _plan(
    offset: Array,
    timestamp: Array,
    key: Spans,
    value: Spans,
    headers: Spans,
    batch_bytes: int,
    batch_rows: int,
) -> Array:
    """The first row of each batch, and the number of rows."""
    from sexton.records import kernels
    from sexton.records.native import address

    lengths = [np.ascontiguousarray(s.length, np.int32) for s in (key, value, headers)]
    first_row = np.empty(len(offset) + 1, np.int64)
    batches = kernels.plan(
        address(first_row), len(offset), batch_bytes, batch_rows,
        address(offset), address(timestamp), *(address(a) for a in lengths),
    )  # fmt: skip
    return first_row[: batches + 1].copy()


def encode(columns: Columns) -> bytes:
    """The batches of `columns`, one for each of its headers, one after the other."""
    return Encoder().encode(columns).tobytes()


class Encoder:
    """Encodes again and again into the same memory: a result is valid until the next one."""

    def __init__(self) -> None:
        self._out = np.empty(0, np.uint8)

    def encode(self, columns: Columns) -> Array:
        plain, sizes = self._encode_plain(columns)
        codecs = field(columns.headers_of_batches, "attributes") & CODEC_MASK
        if not codecs.any():
            return plain
        return _compress(plain.data, sizes.tolist(), codecs.tolist())

    def _encode_plain(self, columns: Columns) -> tuple[Array, Array]:
        """All batches without compression, and the size of each."""
        from sexton.records import kernels
        from sexton.records.native import address

        first_row = np.ascontiguousarray(columns.first_row, np.int64)
        _check_shape(columns, first_row)
        table = np.ascontiguousarray(columns.headers_of_batches).copy()
        table["records_count"] = np.diff(first_row)
        offset = np.ascontiguousarray(columns.offset, np.int64)
        timestamp = np.ascontiguousarray(columns.written_timestamp, np.int64)
        held = [table, first_row, offset, timestamp]  # alive while the kernel has their addresses
        room = len(table) * HEADER_BYTES + len(offset) * kernels.ROW_BYTES + kernels.GUARD
        spans: list[int] = []
        for column in (columns.key, columns.value, columns.headers):
            data = np.ascontiguousarray(column.data)
            position = np.ascontiguousarray(column.position, np.int32)
            length = np.ascontiguousarray(column.length, np.int32)
            held += [data, position, length]
            spans += [address(data), len(data), address(position), address(length)]
            total = kernels.total(address(length), len(length))
            if len(data) <= 1 and total > len(length) * len(data):
                raise ValueError("keys, values or headers end outside their buffer")
            room += total
        if len(self._out) < room:
            self._out = np.empty(room, np.uint8)
        sizes = np.empty(len(table), np.int64)
        end = kernels.encode(
            address(self._out), address(sizes), address(table), address(first_row), len(table),
            address(offset), address(timestamp), *spans,
        )  # fmt: skip
        if end < 0:
            raise ValueError(f"row {-1 - end}: its key, value or headers end outside their buffer")
        return self._out[: end - address(self._out)], sizes


def _check_shape(columns: Columns, first_row: Array) -> None:
    """The kernel believes these; a caller that built columns by hand may have them wrong."""
    rows = len(columns.offset)
    spans = (columns.key, columns.value, columns.headers)
    assert all(len(s.position) == len(s.length) == rows for s in spans)
    assert len(columns.written_timestamp) == rows
    assert len(first_row) == len(columns.headers_of_batches) + 1
    assert first_row[0] == 0 and first_row[-1] == rows and (np.diff(first_row) >= 0).all()


def _compress(plain: memoryview, sizes: list[int], codecs: list[int]) -> Array:
    """The same batches with the records of each compressed by its codec."""
    parts: list[bytearray | memoryview] = []
    place = 0
    for codec, size in zip(codecs, sizes, strict=True):
        batch = plain[place : place + size]
        place += size
        if codec == Codec.NONE:
            parts.append(batch)
            continue
        parts.append(compressed(batch, codec))
    return np.frombuffer(b"".join(parts), np.uint8)


def compressed(batch: memoryview, codec: int) -> bytearray:
    """A plain batch with its records compressed, which its attributes say then."""
    from sexton.records import kernels
    from sexton.records.native import address

    packed = bytearray(batch[:HEADER_BYTES])
    packed[_CODEC_AT] = packed[_CODEC_AT] & ~CODEC_MASK | codec
    packed += deflate(codec, batch[HEADER_BYTES:])
    kernels.seal(address(np.frombuffer(packed, np.uint8)), len(packed))
    return packed
