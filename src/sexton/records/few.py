"""A few records to a batch and back, one at a time: for a broker's own topics.

numpy and kernels take a fifth of a second to load and pay off from thousands of records on; a
broker that writes an offset now and then is served better by plain Python. The bytes are the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from sexton.base.errors import CorruptLog
from sexton.records.codecs import inflate
from sexton.records.layout import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
)
from sexton.records.varints import get_varint, put_varint

KeyAndValue = tuple[bytes | None, bytes | None]


class FewRecord(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def few_batch(
    records: Sequence[KeyAndValue],
    timestamp: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytes:
    """One uncompressed batch; its offsets begin at 0 until a leader gives it others."""
    body = bytearray()
    for delta, (key, value) in enumerate(records):
        record = b"".join(
            (b"\0\0", put_varint(delta), _field(key), _field(value), b"\0")
        )  # attributes and the time's delta are 0; no headers
        body += put_varint(len(record)) + record
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_BYTES - LENGTH_END + len(body),
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=TRANSACTIONAL if transactional else 0,
        last_offset_delta=len(records) - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )
    batch = bytearray(header.pack()) + body
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def _field(data: bytes | None) -> bytes:
    return b"\x01" if data is None else put_varint(len(data)) + data


def few_records(batch: bytes | memoryview, where: str) -> Iterator[FewRecord]:
    """The records of one whole batch, whatever its codec."""
    header = BatchHeader.unpack(batch)
    data = bytes(batch[HEADER_BYTES : header.size])
    if header.codec:
        data = inflate(header.codec, data, where)
    appended_at = header.max_timestamp if header.is_log_append_time else None
    place = 0
    try:
        for _ in range(header.records_count):
            _length, place = get_varint(data, place)
            time, place = get_varint(data, place + 1)
            delta, place = get_varint(data, place)
            key, place = _read_field(data, place)
            value, place = _read_field(data, place)
            place = _skip_headers(data, place)
            timestamp = header.base_timestamp + time if appended_at is None else appended_at
            yield FewRecord(header.base_offset + delta, timestamp, key, value)
    except IndexError:
        raise CorruptLog(where, "a record ends outside its batch") from None


def _read_field(data: bytes, place: int) -> tuple[bytes | None, int]:
    size, place = get_varint(data, place)
    if size < 0:
        return None, place
    if place + size > len(data):
        raise IndexError
    return data[place : place + size], place + size


def _skip_headers(data: bytes, place: int) -> int:
    count, place = get_varint(data, place)
    for _ in range(count):
        _key, place = _read_field(data, place)
        _value, place = _read_field(data, place)
    return place
