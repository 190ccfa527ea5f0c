"""The three indexes of a segment, as Kafka lays them out.

    .index       relative offset int32, position int32      a batch's last offset and its start
    .timeindex   timestamp int64, relative offset int32     largest timestamp so far, and where
    .txnindex    version int16, producer id int64, first offset int64, last offset int64,
                 last stable offset int64                   one aborted transaction

Offsets are relative to the segment's base offset in the first two. Kafka preallocates those while a
segment is active, so a file that was not closed has zeros at its end; and since neither key can go
back, the valid entries are those that increase.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from sexton.base.errors import CorruptLog


class OffsetEntry(NamedTuple):
    offset: int  # relative to the segment's base
    position: int


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int  # relative to the segment's base


class AbortedTransaction(NamedTuple):
    """What a read_committed consumer needs to know to leave a transaction out."""

    producer_id: int
    first_offset: int
    last_offset: int  # of its ABORT marker
    last_stable_offset: int  # after this marker: how far a reader may go without looking further


@dataclass(slots=True)
class OffsetIndex:
    """Where to start looking for an offset."""

    data: bytearray
    ENTRY: ClassVar[struct.Struct] = struct.Struct(">ii")

    @classmethod
    def parse(cls, data: bytes) -> OffsetIndex:
        index = cls(bytearray())
        entries = OffsetIndex.ENTRY.iter_unpack(data[: len(data) // 8 * 8])
        last = OffsetEntry(-1, -1)
        for entry in entries:
            if entry[0] <= last.offset or entry[1] <= last.position:
                break
            last = OffsetEntry(*entry)
            index.data += OffsetIndex.ENTRY.pack(*entry)
        return index

    def __len__(self) -> int:
        return len(self.data) // 8

    def __getitem__(self, row: int) -> OffsetEntry:
        return OffsetEntry(*self.ENTRY.unpack_from(self.data, row * 8))

    def append(self, entry: OffsetEntry) -> bytes:
        """Returns the bytes to append to the file."""
        assert not self.data or entry.offset > self[len(self) - 1].offset
        packed = self.ENTRY.pack(*entry)
        self.data += packed
        return packed

    def position_before(self, offset: int) -> int:
        """A position from which the batch that holds `offset` can be found by going forward."""
        row = _rows_up_to(self, offset)
        return self[row - 1].position if row else 0

    def truncate(self, offset: int) -> None:
        """Forgets entries at or after this relative offset."""
        del self.data[_rows_up_to(self, offset - 1) * 8 :]


@dataclass(slots=True)
class TimeIndex:
    """From which offset on are there records of this time or later?"""

    data: bytearray
    ENTRY: ClassVar[struct.Struct] = struct.Struct(">qi")

    @classmethod
    def parse(cls, data: bytes) -> TimeIndex:
        index = cls(bytearray())
        last = TimeEntry(-1, -1)
        for entry in TimeIndex.ENTRY.iter_unpack(data[: len(data) // 12 * 12]):
            if index.data and (entry[0] <= last.timestamp or entry[1] < last.offset):
                break
            if not index.data and entry == (0, 0):
                break  # preallocated and never written
            last = TimeEntry(*entry)
            index.data += TimeIndex.ENTRY.pack(*entry)
        return index

    def __len__(self) -> int:
        return len(self.data) // 12

    def __getitem__(self, row: int) -> TimeEntry:
        return TimeEntry(*self.ENTRY.unpack_from(self.data, row * 12))

    def append(self, entry: TimeEntry) -> bytes:
        """Returns the bytes to append to the file: none if no later time is told."""
        if self.data:
            last = self[len(self) - 1]
            if entry.timestamp <= last.timestamp or entry.offset < last.offset:
                return b""
        packed = self.ENTRY.pack(*entry)
        self.data += packed
        return packed

    def offset_before(self, timestamp: int) -> int:
        """No record below this relative offset has this timestamp or a later one."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle].timestamp < timestamp:
                low = middle + 1
            else:
                high = middle
        return self[low - 1].offset if low else 0

    def truncate(self, offset: int) -> None:
        rows = len(self)
        while rows and self[rows - 1].offset >= offset:
            rows -= 1
        del self.data[rows * 12 :]


def _rows_up_to(index: OffsetIndex, offset: int) -> int:
    """How many entries are at or before a relative offset."""
    low, high = 0, len(index)
    while low < high:
        middle = (low + high) // 2
        if index[middle].offset <= offset:
            low = middle + 1
        else:
            high = middle
    return low


_ABORTED = struct.Struct(">hqqqq")
ABORTED_BYTES = _ABORTED.size  # 34


def pack_aborted(entry: AbortedTransaction) -> bytes:
    return _ABORTED.pack(0, *entry)


def parse_aborted(data: bytes, where: str) -> list[AbortedTransaction]:
    """All entries of a transaction index; CorruptLog if it was cut or is of another version."""
    entries = []
    if len(data) % ABORTED_BYTES:
        raise CorruptLog(
            where, f"{len(data)} bytes are no whole number of {ABORTED_BYTES}-byte entries"
        )
    for place in range(0, len(data), ABORTED_BYTES):
        version, *fields = _ABORTED.unpack_from(data, place)
        if version > 0:
            raise CorruptLog(f"{where} at byte {place}", f"version {version} is not known")
        entries.append(AbortedTransaction(*fields))
    return entries
