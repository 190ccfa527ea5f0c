"""The 61 bytes in front of every record batch (format v2, since Kafka 0.11; KIP-98, KIP-534).

    position  field                    type
           0  base_offset              int64   offset of the first record as it was written
           8  batch_length             int32   bytes after this field
          12  partition_leader_epoch   int32   not under the CRC: a broker sets it on append
          16  magic                    int8    2
          17  crc                      uint32  CRC-32C of all that follows
          21  attributes               int16   see the masks below
          23  last_offset_delta        int32   kept by cleaning, so an emptied batch keeps its range
          27  base_timestamp           int64   or the delete horizon, if that bit is set
          35  max_timestamp            int64   the append time of all records, if that bit is set
          43  producer_id              int64   -1: no producer state
          51  producer_epoch           int16
          53  base_sequence            int32
          57  records_count            int32
          61  records, compressed as one block if the codec bits say so

This module reads and writes one header at a time without numpy or numba, which is what a broker's
append path needs. `tables` does the same for a million batches at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from sexton.base.errors import CorruptLog

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size  # 61
LENGTH_END = 12  # batch_length counts the bytes from here on
CRC_START = 21  # the CRC covers the batch from here on
MIN_LENGTH = HEADER_BYTES - LENGTH_END
MAGIC = 2
MOST_OFFSET = 2**63 - 2  # the next offset is an int64 as well

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # KIP-534: base_timestamp is when a tombstone or marker in here may go

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

# Length, attributes, two deltas, key length, value length and header count take a byte each.
MIN_RECORD_BYTES = 7


class Codec(IntEnum):
    """How a batch's records are compressed; the number is the codec bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """One header, fields in wire order. (A tuple: a frozen dataclass takes six times as long to
    make, and a broker makes several of them for each batch it moves.)
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_END + self.batch_length

    @property
    def last_offset(self) -> int:
        """Of the batch as it was written, whether or not its last record is still there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the next batch may begin."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences count from 0 to 2^31-1 and then start again at 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return sequence_after(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The codec bits; 5 to 7 stand for no codec that Kafka knows."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Timestamps are the broker's, not the producer's."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """It belongs to a transaction, as data or as its marker."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Its records are control records, such as markers; no consumer is given them."""
        return bool(self.attributes & CONTROL)

    @property
    def has_producer(self) -> bool:
        """Written by an idempotent or transactional producer."""
        return self.producer_id != NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when its tombstones and markers may go, if a cleaner has said so (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
        """The header at `position`, unchecked; struct.error if there are fewer than 61 bytes."""
        return cls._make(HEADER.unpack_from(data, position))

    def pack(self) -> bytes:
        """The 61 bytes."""
        return HEADER.pack(*self)


def sequence_after(sequence: int, by: int) -> int:
    return (sequence + by) & 0x7FFFFFFF


def read_header(data: bytes | bytearray | memoryview, position: int, where: str) -> BatchHeader:
    """The header at `position`, checked for what can be checked without the rest of the batch."""
    if position + HEADER_BYTES > len(data):
        raise CorruptLog(where, f"{len(data) - position} bytes left, a batch header has 61")
    header = BatchHeader.unpack(data, position)
    why = header_fault(header)
    if why is not None:
        raise CorruptLog(where, why)
    return header


_HOP = struct.Struct(">qi4xb6xi30xi")  # base offset, length, magic, last offset delta, count


def hop_to(data: bytes | bytearray | memoryview, position: int, offset: int) -> int:
    """Where, from `position` on, the first batch is that ends at or after `offset`.

    Or before that one to which `read_header` would object; or the place where `data` has no whole
    header any more. Other headers are only looked at as far as they need to be.
    """
    last_place = len(data) - HEADER_BYTES
    while position <= last_place:
        base, length, magic, delta, count = _HOP.unpack_from(data, position)
        if base + delta >= offset or magic != MAGIC or length < MIN_LENGTH:
            break
        if base < 0 or delta < 0 or count < 0:
            break
        position += LENGTH_END + length
    return position


def header_fault(header: BatchHeader) -> str | None:
    """Why no broker can have written this header, or None; `kernels.scan` has the same rules."""
    if header.magic != MAGIC:
        return magic_fault(header.magic)
    if header.batch_length < MIN_LENGTH:
        return f"batch length {header.batch_length} is less than the {MIN_LENGTH} of an empty batch"
    if header.base_offset < 0:
        return f"negative base offset {header.base_offset}"
    if header.last_offset_delta < 0:
        return f"negative last offset delta {header.last_offset_delta}"
    if header.last_offset > MOST_OFFSET:
        return f"the last offset {header.last_offset} is beyond the largest, {MOST_OFFSET}"
    if header.records_count < 0:
        return f"negative record count {header.records_count}"
    return None


def magic_fault(magic: int) -> str:
    if magic in (0, 1):
        return f"message format v{magic} (before Kafka 0.11) is not supported: only v2 is"
    return f"magic byte is {magic}, not 2: this is not a record batch"


def headers_in(
    data: bytes | bytearray | memoryview, where: str
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch in `data`, which must hold whole batches only."""
    position = 0
    while position < len(data):
        try:
            header = read_header(data, position, where)
        except CorruptLog as error:
            raise CorruptLog(f"{where} at byte {position}", error.why) from None
        if position + header.size > len(data):
            why = f"the batch has {header.size} bytes and only {len(data) - position} are there"
            raise CorruptLog(f"{where} at byte {position}", why)
        yield position, header
        position += header.size
