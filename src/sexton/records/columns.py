"""Records as columns: the form in which everything here reads, compares, cleans and writes them.

A column of keys is a `Spans`: one buffer of bytes and, for each row, where its bytes are. Nothing
is copied out of a decoded batch until somebody asks for it; there is no Python object per record.

    data      ...|user-1|{"a": 1}|0|...|user-2|...
    position      ▲ 61   ▲ 67          ▲ 88             a null has length -1
    length          6      8             6
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sexton.records.layout import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from sexton.records.tables import Array, HeaderTable, field
from sexton.records.varints import get_varint, put_varint

NULL = -1
MOST_SPAN_BYTES = (1 << 31) - 1  # positions are 32-bit


@dataclass(frozen=True, slots=True)
class Spans:
    """A column of byte strings, some of them null."""

    data: Array  # uint8
    position: Array  # int32, of each row's first byte
    length: Array  # int32; -1: null

    def __len__(self) -> int:
        return len(self.length)

    def __getitem__(self, row: int) -> bytes | None:
        length = int(self.length[row])
        if length < 0:
            return None
        position = int(self.position[row])
        return self.data[position : position + length].tobytes()

    def to_list(self) -> list[bytes | None]:
        """One object a row; None where it is null."""
        raw = self.data.data
        return [
            None if length < 0 else bytes(raw[position : position + length])
            for position, length in zip(self.position.tolist(), self.length.tolist(), strict=True)
        ]

    def take(self, rows: Array | slice) -> Spans:
        """The column with these rows only (a mask, row numbers or a slice), over the same bytes."""
        return Spans(self.data, self.position[rows], self.length[rows])

    @classmethod
    def from_list(cls, items: Sequence[bytes | None]) -> Spans:
        """The column with these rows, copied to one buffer."""
        size = sum(len(item) for item in items if item)
        if size > MOST_SPAN_BYTES:
            raise ValueError(f"{size} bytes in one column; at most {MOST_SPAN_BYTES} can be")
        length = np.fromiter((NULL if item is None else len(item) for item in items), np.int32)
        data = np.frombuffer(b"".join(item for item in items if item), np.uint8)
        return cls(data, _starts(np.maximum(length, 0)), length)

    @classmethod
    def from_offsets(cls, data: Array, offsets: Array, valid: Array | None = None) -> Spans:
        """From Arrow's layout: row i is data[offsets[i]:offsets[i + 1]], null where not valid."""
        if len(data) > MOST_SPAN_BYTES:
            raise ValueError(f"{len(data)} bytes in one column; at most {MOST_SPAN_BYTES} can be")
        length = np.diff(offsets).astype(np.int32)
        if valid is not None:
            length[~valid] = NULL
        return cls(data, offsets[:-1].astype(np.int32), length)


def _starts(lengths: Array) -> Array:
    starts = np.zeros(len(lengths), np.int32)
    np.cumsum(lengths[:-1], out=starts[1:])
    return starts


class Record(NamedTuple):
    """One record as an object, for people and tests."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """The records of some batches, row by row in log order, and the headers of those batches."""

    headers_of_batches: HeaderTable
    first_row: Array  # int64; rows of batch b are [first_row[b], first_row[b + 1])
    offset: Array  # int64
    written_timestamp: Array  # int64, as the producer set it: `timestamp` is what Kafka serves
    key: Spans
    value: Spans
    headers: Spans  # each with its count in front, as on the wire: see `read_headers`

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def batch(self) -> Array:
        """For each row, the index of its batch."""
        return np.repeat(np.arange(len(self.headers_of_batches)), np.diff(self.first_row))

    @property
    def timestamp(self) -> Array:
        """Milliseconds; a batch with log-append time gives all its records its max_timestamp."""
        appended = field(self.headers_of_batches, "attributes") & LOG_APPEND_TIME != 0
        if not appended.any():
            return self.written_timestamp
        batch = self.batch
        of_batch = field(self.headers_of_batches, "max_timestamp")[batch]
        return np.where(appended[batch], of_batch, self.written_timestamp)

    def of_batch(self, name: str) -> Array:
        """For each row, a field of its batch's header."""
        return field(self.headers_of_batches, name)[self.batch]

    @property
    def is_control(self) -> Array:
        """Of each record: is it a control record, such as a marker?"""
        return self._has(CONTROL)

    @property
    def is_transactional(self) -> Array:
        """Of each record: does it belong to a transaction?"""
        return self._has(TRANSACTIONAL)

    def _has(self, bit: int) -> Array:
        bits: Array = self.of_batch("attributes") & bit
        return bits.astype(np.bool_)

    def records(self) -> Iterator[Record]:
        """One object a record: convenient, and a thousand times slower than the columns."""
        columns: Iterable[Any] = zip(
            self.offset.tolist(),
            self.timestamp.tolist(),
            self.key.to_list(),
            self.value.to_list(),
            self.headers.to_list(),
            strict=True,
        )
        for offset, timestamp, key, value, headers in columns:
            yield Record(offset, timestamp, key, value, read_headers(headers))


def read_headers(section: bytes | None) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of one record, from a section that `decode` has checked."""
    if not section or section == b"\0":
        return ()
    count, place = get_varint(section, 0)
    headers = []
    for _ in range(count):
        size, place = get_varint(section, place)
        name = section[place : place + size].decode("utf-8", "replace")
        size, place = get_varint(section, place + size)
        headers.append((name, section[place : place + size] if size >= 0 else None))
        place += max(size, 0)
    return tuple(headers)


def write_headers(headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    """The section that `read_headers` reads."""
    items = list(headers)
    parts = [put_varint(len(items))]
    for name, value in items:
        encoded = name.encode()
        parts += [put_varint(len(encoded)), encoded]
        parts += [put_varint(NULL)] if value is None else [put_varint(len(value)), value]
    return b"".join(parts)
