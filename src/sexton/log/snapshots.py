"""A producer snapshot: what a log knew of its producers at one offset, to save reading it all.

    version int16 (1), crc uint32 of the rest, count int32, then for each producer:
    producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32,
    timestamp int64, coordinator epoch int32, first offset of its open transaction int64 (or -1)

The file `N.snapshot` holds the state after every batch below offset N and nothing later.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from sexton.base.errors import CorruptLog

_HEAD = struct.Struct(">hIi")
_CRC_END = 6
_ENTRY = struct.Struct(">qhiqiqiq")
VERSION = 1


class ProducerEntry(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int  # last offset of its last batch minus the first
    timestamp: int
    coordinator_epoch: int
    open_first_offset: int  # -1: no open transaction


def pack_snapshot(entries: list[ProducerEntry]) -> bytes:
    body = b"".join(_ENTRY.pack(*entry) for entry in entries)
    counted = struct.pack(">i", len(entries)) + body
    return struct.pack(">hI", VERSION, crc32c(counted)) + counted


def parse_snapshot(data: bytes, where: str) -> list[ProducerEntry]:
    if len(data) < _HEAD.size:
        raise CorruptLog(where, f"{len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptLog(where, f"producer snapshot of version {version}, only {VERSION} is known")
    if crc != crc32c(data[_CRC_END:]):
        raise CorruptLog(where, "the checksum of the producer snapshot does not match")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptLog(where, f"{len(data)} bytes do not hold the {count} producers it claims")
    return [ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]
