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
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from operator import le, lt
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
    """Where to start looking for an offset. Two arrays, so that the search is one of C."""

    offsets: array[int] = field(default_factory=lambda: array("i"))
    positions: array[int] = field(default_factory=lambda: array("i"))
    ENTRY: ClassVar[struct.Struct] = struct.Struct(">ii")

    @classmethod
    def parse(cls, data: bytes) -> OffsetIndex:
        """The valid entries that `data` begins with."""
        numbers = array("i", data[: len(data) // cls.ENTRY.size * cls.ENTRY.size])
        if sys.byteorder == "little":
            numbers.byteswap()
        index = cls(numbers[::2], numbers[1::2])
        index._keep(min(_rising(index.offsets, lt), _rising(index.positions, lt)))
        if index.offsets and (index.offsets[0] < 0 or index.positions[0] < 0):
            index._keep(0)
        return index

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        """Of its file."""
        return len(self.offsets) * self.ENTRY.size

    def pack(self) -> bytes:
        """What its file holds."""
        return b"".join(map(self.ENTRY.pack, self.offsets, self.positions))

    def __getitem__(self, row: int) -> OffsetEntry:
        return OffsetEntry(self.offsets[row], self.positions[row])

    def append(self, entry: OffsetEntry) -> bytes:
        """Returns the bytes to append to the file."""
        assert not self.offsets or entry.offset > self.offsets[-1]
        self.offsets.append(entry.offset)
        self.positions.append(entry.position)
        return self.ENTRY.pack(*entry)

    def position_before(self, offset: int) -> int:
        """A position from which the batch that holds `offset` can be found by going forward."""
        row = bisect_right(self.offsets, offset)
        return self.positions[row - 1] if row else 0

    def offset_after(self, position: int) -> int | None:
        """The offset of the first entry at or after a position; None if all are before it."""
        row = bisect_left(self.positions, position)
        return self.offsets[row] if row < len(self.offsets) else None

    def truncate(self, offset: int) -> None:
        """Forgets entries at or after this relative offset."""
        self._keep(bisect_left(self.offsets, offset))

    def _keep(self, rows: int) -> None:
        del self.offsets[rows:], self.positions[rows:]


@dataclass(slots=True)
class TimeIndex:
    """From which offset on are there records of this time or later?"""

    times: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("i"))
    ENTRY: ClassVar[struct.Struct] = struct.Struct(">qi")

    @classmethod
    def parse(cls, data: bytes) -> TimeIndex:
        """The valid entries that `data` begins with."""
        words = array("i", data[: len(data) // cls.ENTRY.size * cls.ENTRY.size])
        times = array("i", bytes(8 * (len(words) // 3)))
        times[::2], times[1::2] = words[::3], words[1::3]  # the halves of each
        index = cls(array("q", times.tobytes()), words[2::3])
        if sys.byteorder == "little":
            index.times.byteswap()
            index.offsets.byteswap()
        if len(index) and index[0] == (0, 0):
            return cls()  # preallocated and never written
        index._keep(min(_rising(index.times, lt), _rising(index.offsets, le)))
        return index

    def __len__(self) -> int:
        return len(self.times)

    @property
    def size_bytes(self) -> int:
        """Of its file."""
        return len(self.times) * self.ENTRY.size

    def pack(self) -> bytes:
        """What its file holds."""
        return b"".join(map(self.ENTRY.pack, self.times, self.offsets))

    def __getitem__(self, row: int) -> TimeEntry:
        return TimeEntry(self.times[row], self.offsets[row])

    def append(self, entry: TimeEntry) -> bytes:
        """Returns the bytes to append to the file: none if no later time is told."""
        if self.times and (entry.timestamp <= self.times[-1] or entry.offset < self.offsets[-1]):
            return b""
        self.times.append(entry.timestamp)
        self.offsets.append(entry.offset)
        return self.ENTRY.pack(*entry)

    def offset_before(self, timestamp: int) -> int:
        """An offset up to which all batches are older than this time; 0 if there is none."""
        row = bisect_left(self.times, timestamp)
        return self.offsets[row - 1] if row else 0

    def truncate(self, offset: int) -> None:
        """Forgets entries at or after this relative offset."""
        self._keep(bisect_left(self.offsets, offset))

    def _keep(self, rows: int) -> None:
        del self.times[rows:], self.offsets[rows:]


def _rising(values: array[int], rises: Callable[[int, int], bool]) -> int:
    """How many values, from the first on, rise one above the other."""
    if all(map(rises, values, values[1:])):  # as in every index that is whole
        return len(values)
    return 1 + next(n for n, pair in enumerate(pairwise(values)) if not rises(*pair))


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
