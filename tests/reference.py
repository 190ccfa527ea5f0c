"""The slow, plain decoder that the kernels are compared with.

Written from Kafka's description of the format, one record and one byte at a time, with Python's
integers and slices, which cannot read outside a buffer.
"""

from __future__ import annotations

from crc32c import crc32c

from sexton.records.codecs import inflate
from sexton.records.columns import Record
from sexton.records.layout import CRC_START, HEADER_BYTES, BatchHeader


class Wrong(Exception):
    """No broker can have written this batch."""


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.place:
            raise Wrong(f"{size} bytes at {self.place} of {len(self.data)}")
        taken = self.data[self.place : self.place + size]
        self.place += size
        return taken

    def varint(self, bits: int) -> int:
        value = 0
        for shift in range(0, bits, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    raise Wrong("a varint has more bits than its type")
                return (value >> 1) ^ -(value & 1)
        raise Wrong("a varint is too long")

    def field(self) -> bytes | None:
        size = self.varint(32)
        return None if size < 0 else self.take(size)

    def finish(self) -> None:
        if self.place != len(self.data):
            raise Wrong(f"{len(self.data) - self.place} bytes are left")


def records_of(batch: bytes, *, most: int = 1 << 28) -> list[Record]:
    """The records of one batch with a sound header, or Wrong."""
    header = BatchHeader.unpack(batch)
    if crc32c(batch[CRC_START:]) != header.crc:
        raise Wrong("checksum")
    section = inflate(header.codec, batch[HEADER_BYTES:], "reference", most)
    cursor = _Cursor(section)
    records: list[Record] = []
    previous = -1
    if header.records_count * 7 > len(section):
        raise Wrong("more records than bytes for them")
    for _ in range(header.records_count):
        delta, record = _record(_Cursor(cursor.take(_length(cursor))), header)
        if not previous < delta <= header.last_offset_delta:
            raise Wrong(f"offset delta {delta} after {previous}")
        previous = delta
        records.append(record)
    cursor.finish()
    return records


def _length(cursor: _Cursor) -> int:
    length = cursor.varint(32)
    if length < 0:
        raise Wrong("negative record length")
    return length


def _record(body: _Cursor, header: BatchHeader) -> tuple[int, Record]:
    body.take(1)
    timestamp = _int64(header.base_timestamp + body.varint(64))
    delta = body.varint(32)
    key = body.field()
    value = body.field()
    headers = _headers(body)
    body.finish()
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    return delta, Record(header.base_offset + delta, timestamp, key, value, headers)


def _headers(body: _Cursor) -> tuple[tuple[str, bytes | None], ...]:
    count = body.varint(32)
    if not 0 <= count <= len(body.data):
        raise Wrong(f"{count} headers")
    headers = []
    for _ in range(count):
        name = body.field()
        if name is None:
            raise Wrong("a header without a name")
        headers.append((name.decode("utf-8", "replace"), body.field()))
    return tuple(headers)


def _int64(value: int) -> int:
    """As Java adds: past the largest long comes the smallest."""
    return (value + 2**63) % 2**64 - 2**63
