"""Decoded records to Arrow, column by column: no Python object is made for any record.

    Columns (spans over a fetched chunk) ──rows──▶ RecordBatch of about BATCH_BYTES ──▶ Spark

Keys and values lie scattered in a chunk and Arrow wants them end to end; one kernel call copies
them there, and then the chunk's memory is free again. Headers are found by stepping through the
first header of all records at once, then the second, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sexton.log.inspect.outcomes import NAMES as OUTCOME_NAMES
from sexton.log.key_kernels import gather_spans
from sexton.records.columns import NULL, Columns, Spans
from sexton.records.control import ControlType
from sexton.records.layout import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from sexton.records.native import address
from sexton.records.tables import Array, field
from sexton.spark.columns import HEADERS, PATH, REPLICA, arrow_schema

BATCH_ROWS = 1 << 16
BATCH_BYTES = 8 << 20
_MOST_MS = (1 << 63) // 1000 - 1  # Spark counts microseconds
_CONTROLS = {int(kind): kind.name for kind in ControlType}


@dataclass(frozen=True, slots=True)
class Origin:
    """What all rows of a read have in common."""

    topic: str
    partition: int | None
    replica: int | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of decoded columns, in order."""

    columns: Columns
    rows: Array  # int64
    outcome: Array | None = None  # of each batch; None: nobody asked


class ArrowMaker:
    """Makes RecordBatches with the columns that were chosen, in that order."""

    def __init__(self, names: Sequence[str], origin: Origin) -> None:
        self._schema = arrow_schema(names)
        self._origin = origin
        self._makers = [_MAKERS[name] for name in names]

    def batches(self, found: Rows) -> Iterator[Any]:
        for piece in _pieces(found):
            part = _Part(found.columns, piece, found.outcome, self._origin)
            arrays = [make(part) for make in self._makers]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _pieces(found: Rows) -> Iterator[Array]:
    """Rows in groups that are neither too many nor too large; one row may be larger alone."""
    rows, columns = found.rows, found.columns
    size = np.zeros(len(rows), np.int64)
    for spans in (columns.key, columns.value, columns.headers):
        size += np.maximum(spans.length[rows], 0)
    ends = np.cumsum(size)
    first = 0
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        stop = min(max(stop, first + 1), first + BATCH_ROWS)
        yield rows[first:stop]
        first = stop


class _Part:
    """The rows of one RecordBatch, and what their batches say.

    Mostly they are all rows of some batches: then `rows` is a slice, and columns need not be copied
    to leave others out.
    """

    def __init__(
        self, columns: Columns, numbers: Array, outcome: Array | None, origin: Origin
    ) -> None:
        first, last = int(numbers[0]), int(numbers[-1])
        self.columns = columns
        self.numbers = numbers
        self.rows = slice(first, last + 1) if last - first + 1 == len(numbers) else numbers
        self.origin = origin
        self._outcome = outcome

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def batch(self) -> Array:
        """Of each row."""
        found: Array = np.searchsorted(self.columns.first_row, self.numbers, side="right") - 1
        return found

    def of_batch(self, name: str) -> Array:
        return field(self.columns.headers_of_batches, name)[self.batch]

    def has(self, bit: int) -> Array:
        of_batches = (field(self.columns.headers_of_batches, "attributes") & bit) != 0
        if not of_batches.any():
            return np.zeros(len(self), np.bool_)
        bits: Array = of_batches[self.batch]
        return bits

    def outcome(self) -> Array:
        assert self._outcome is not None, "whoever asks for outcomes has to find them"
        return self._outcome[self.batch]


# ── a column each ──


def _key(part: _Part) -> Any:
    return binary(part.columns.key.take(part.rows))


def _value(part: _Part) -> Any:
    return binary(part.columns.value.take(part.rows))


def _topic(part: _Part) -> Any:
    return _all(part, part.origin.topic, pa.string())


def _partition(part: _Part) -> Any:
    return _all(part, part.origin.partition, pa.int32())


def _offset(part: _Part) -> Any:
    return pa.array(part.columns.offset[part.rows].copy())  # the decoder will use its own again


def _timestamp(part: _Part) -> Any:
    """Microseconds; null where Kafka has milliseconds that Spark's timestamps do not reach."""
    times_ms = part.columns.written_timestamp[part.rows]
    appended = part.has(LOG_APPEND_TIME)
    if appended.any():
        times_ms = np.where(appended, part.of_batch("max_timestamp"), times_ms)
    beyond = (times_ms > _MOST_MS) | (times_ms < -_MOST_MS)
    return pa.array(times_ms * 1000, pa.timestamp("us", "UTC"), mask=beyond)


def _timestamp_type(part: _Part) -> Any:
    return pa.array(part.has(LOG_APPEND_TIME).astype(np.int32))


def _headers(part: _Part) -> Any:
    return headers(part.columns.headers.take(part.rows))


def _replica(part: _Part) -> Any:
    return _all(part, part.origin.replica, pa.int32())


def _path(part: _Part) -> Any:
    return _all(part, part.origin.path, pa.string())


def _producer_id(part: _Part) -> Any:
    producer = part.of_batch("producer_id")
    return pa.array(producer, mask=producer < 0)


def _producer_epoch(part: _Part) -> Any:
    return pa.array(
        part.of_batch("producer_epoch").astype(np.int32), mask=part.of_batch("producer_id") < 0
    )


def _transactional(part: _Part) -> Any:
    return pa.array(part.has(TRANSACTIONAL))


def _control(part: _Part) -> Any:
    """What a control record says: COMMIT, ABORT and others of Kafka's; null for data."""
    said: Array = np.full(len(part), -1, np.int64)
    key = part.columns.key
    rows = np.flatnonzero(part.has(CONTROL) & (key.length[part.rows] >= 4))
    place = key.position[part.numbers[rows]].astype(np.int64)
    said[rows] = key.data[place + 2].astype(np.int64) << 8 | key.data[place + 3]
    return _words(said, _CONTROLS)


def _outcome(part: _Part) -> Any:
    return _words(part.outcome(), OUTCOME_NAMES)


_MAKERS: dict[str, Callable[[_Part], Any]] = {
    "key": _key,
    "value": _value,
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    HEADERS: _headers,
    REPLICA: _replica,
    PATH: _path,
    "producer_id": _producer_id,
    "producer_epoch": _producer_epoch,
    "transactional": _transactional,
    "control": _control,
    "outcome": _outcome,
}


# ── shapes ──


def _all(part: _Part, value: object, kind: Any) -> Any:
    return pa.repeat(pa.scalar(value, kind), len(part))


def _words(codes: Array, names: dict[int, str]) -> Any:
    """Codes as words; a code without a word is null."""
    import pyarrow.compute as pc  # here: few reads ask for words, and it takes a while

    found = pa.nulls(len(codes), pa.string())
    for code, word in names.items():
        here = codes == code
        if here.any():
            found = pc.if_else(pa.array(here), pa.scalar(word), found)
    return found


def binary(spans: Spans, kind: Any = None) -> Any:
    """A column of byte strings, end to end."""
    length = np.ascontiguousarray(spans.length)
    position = np.ascontiguousarray(spans.position)
    offsets: Array = np.zeros(len(length) + 1, np.int32)
    np.cumsum(np.maximum(length, 0), out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    gather_spans(address(spans.data), address(position), address(length), len(spans), address(data))
    null = length < 0
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.binary(), len(spans), buffers)


def headers(spans: Spans) -> Any:
    """A column of lists of (key, value); null for a record without any, as Spark has it."""
    data = spans.data
    count, place = np.zeros(len(spans), np.int64), spans.position.astype(np.int64)
    rows = np.flatnonzero(spans.length > 1)
    count[rows], place[rows] = _varints(data, place[rows])
    first: Array = np.zeros(len(spans) + 1, np.int32)
    np.cumsum(count, out=first[1:])
    found: Array = np.zeros((4, int(first[-1])), np.int32)  # key at, key size, value at, value size
    rows, turn = rows[count[rows] > 0], 0  # none at all may be written in several bytes
    while len(rows):
        slot, at = first[rows] + turn, place[rows]
        for field_at in (0, 2):
            size, at = _varints(data, at)
            found[field_at, slot], found[field_at + 1, slot] = at, size
            at += np.maximum(size, 0)
        place[rows] = at
        turn += 1
        rows = rows[count[rows] > turn]
    keys = binary(Spans(data, found[0], found[1]), pa.string())
    values = binary(Spans(data, found[2], found[3]))
    pairs = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    kind = arrow_schema([HEADERS]).field(0).type
    return pa.ListArray.from_arrays(pa.array(first), pairs, type=kind, mask=pa.array(count == 0))


def _varints(data: Array, at: Array) -> tuple[Array, Array]:
    """The zigzag varint at each place of checked bytes, and the place after it."""
    value = np.zeros(len(at), np.int64)
    at, shift = at.copy(), 0
    going = np.arange(len(at))
    while len(going):
        byte = data[at[going]].astype(np.int64)
        value[going] |= (byte & 0x7F) << shift
        at[going] += 1
        shift += 7
        going = going[byte >= 0x80]
    return (value >> 1) ^ -(value & 1), at


assert NULL < 0
