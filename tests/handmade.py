"""Record batches made by hand: sound ones, and ones that are wrong in exactly one place."""

from __future__ import annotations

import struct

from crc32c import crc32c

from sexton.records.codecs import deflate
from sexton.records.layout import (
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    headers_in,
)
from sexton.records.varints import put_varint

NO_HEADERS = b"\0"


def field(data: bytes | None) -> bytes:
    """A key or value with its length in front."""
    return put_varint(-1) if data is None else put_varint(len(data)) + data


def record(
    offset_delta: int = 0,
    *,
    timestamp_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: bytes = NO_HEADERS,
) -> bytes:
    return framed(
        b"\0"
        + put_varint(timestamp_delta)
        + put_varint(offset_delta)
        + field(key)
        + field(value)
        + headers
    )


def framed(body: bytes) -> bytes:
    """A record of any bytes, with its length in front."""
    return put_varint(len(body)) + body


HEADER = BatchHeader(
    base_offset=0,
    batch_length=0,
    partition_leader_epoch=0,
    magic=MAGIC,
    crc=0,
    attributes=0,
    last_offset_delta=0,
    base_timestamp=1_700_000_000_000,
    max_timestamp=1_700_000_000_000,
    producer_id=-1,
    producer_epoch=-1,
    base_sequence=-1,
    records_count=0,
)


def batch(*records: bytes, **fields: int) -> bytes:
    """A batch of these records, with its true length, count and checksum, unless told otherwise."""
    claims = {"records_count": len(records), "last_offset_delta": max(len(records) - 1, 0)}
    header = HEADER._replace(**{**claims, **fields})
    plain = b"".join(records)
    return seal(header, deflate(header.codec, plain) if header.codec else plain, fields)


def seal(header: BatchHeader, section: bytes, fixed: dict[str, int] | None = None) -> bytes:
    """The header with this (compressed) section behind it; length and CRC are made to match."""
    fixed = fixed or {}
    length = HEADER_BYTES - LENGTH_END + len(section)
    header = header._replace(batch_length=fixed.get("batch_length", length))
    data = bytearray(header.pack() + section)
    crc = fixed.get("crc", crc32c(memoryview(data)[CRC_START:]))
    struct.pack_into(">I", data, CRC_START - 4, crc)
    return bytes(data)


def split(data: bytes) -> list[tuple[BatchHeader, bytes]]:
    """Each batch of sound data: its header, and its section as it stands."""
    return [
        (header, data[position + HEADER_BYTES : position + header.size])
        for position, header in headers_in(data, "split")
    ]


def with_codec(header: BatchHeader, codec: int) -> BatchHeader:
    return header._replace(attributes=header.attributes & ~CODEC_MASK | codec)
