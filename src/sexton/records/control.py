"""Control records: what a coordinator writes into a log to say how a transaction ended.

    key    version int16, type int16          type 0: ABORT, 1: COMMIT, 2 and up: KRaft's own
    value  version int16, coordinator epoch int32, and whatever later versions append

An unknown type, or a version with more in it, is kept as it is: it is a message, not noise.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from crc32c import crc32c

from sexton.base.errors import CorruptLog
from sexton.records.layout import (
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
)
from sexton.records.varints import get_varint, put_varint

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class ControlRecord:
    type: int  # a ControlType, or a number from a later Kafka
    key: bytes
    value: bytes | None

    @property
    def name(self) -> str:
        return (
            ControlType(self.type).name
            if self.type in set(ControlType)
            else f"UNKNOWN({self.type})"
        )

    @property
    def ends_transaction(self) -> bool:
        return self.type in (ControlType.ABORT, ControlType.COMMIT)

    @property
    def coordinator_epoch(self) -> int | None:
        """Which incarnation of the transaction coordinator wrote it; None for other types."""
        if not self.ends_transaction or self.value is None or len(self.value) < _VALUE.size:
            return None
        epoch: int = _VALUE.unpack_from(self.value)[1]
        return epoch


def read_control(key: bytes | None, value: bytes | None, where: str) -> ControlRecord:
    if key is None or len(key) < _KEY.size:
        why = f"a control record's key has {len(key or b'')} bytes, at least {_KEY.size} are needed"
        raise CorruptLog(where, why)
    kind: int = _KEY.unpack_from(key)[1]
    return ControlRecord(kind, key, value)


def first_control_record(batch: bytes | bytearray | memoryview, where: str) -> ControlRecord | None:
    """The one record of a control batch, header included; None if cleaning has emptied the batch.

    A broker looks at markers all the time, so this reads one without numba.
    """
    header = BatchHeader.unpack(batch)
    assert header.is_control
    if header.records_count == 0:
        return None
    if header.codec:
        raise CorruptLog(where, "a control batch is compressed, which Kafka never does")
    try:
        _length, place = get_varint(batch, HEADER_BYTES)
        _time, place = get_varint(batch, place + 1)
        _offset, place = get_varint(batch, place)
        size, place = get_varint(batch, place)
        key = bytes(batch[place : place + size]) if size >= 0 else None
        size, place = get_varint(batch, place + max(size, 0))
        value = bytes(batch[place : place + size]) if size >= 0 else None
        _count, place = get_varint(batch, place + max(size, 0))  # of headers: the value is whole
    except IndexError:
        raise CorruptLog(where, "a control record ends outside its batch") from None
    return read_control(key, value, where)


def marker_batch(
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
) -> bytes:
    """The batch that a coordinator appends to every partition of a transaction that ends."""
    assert kind in (ControlType.ABORT, ControlType.COMMIT)
    key, value = _KEY.pack(0, kind), _VALUE.pack(0, coordinator_epoch)
    body = b"".join(
        [b"\0\0\0", put_varint(len(key)), key, put_varint(len(value)), value, b"\0"]
    )  # attributes and both deltas are 0; no headers
    records = put_varint(len(body)) + body
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_BYTES - LENGTH_END + len(records),
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=TRANSACTIONAL | CONTROL,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        records_count=1,
    )
    batch = bytearray(header.pack() + records)
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)
