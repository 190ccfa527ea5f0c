"""Do a segment's indexes point where they say?

    .index      (offset, position)    a batch begins at the position, and a reader who looks for the
                                      offset and starts there misses nothing
    .timeindex  (timestamp, offset)   the batch with the offset has the timestamp as its largest,
                                      and no batch before it has a larger one

`kafka-dump-log` asks more: that the batch at the position *ends* with the offset. That holds where
every batch was appended alone; where many came at once (a follower's fetch, the cleaner's output in
older versions) Kafka notes the start of the first and the last offset of the last. Both are right.

Kafka allocates both files ahead and fills them while the segment is active: zeros at the end of a
file are no entries. After anything else that does not increase, nothing is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sexton.base.findings import Finding
from sexton.log.inspect.reading import Tail
from sexton.log.inspect.table import BatchTable
from sexton.records.tables import Array

# A missing .index is what makes a broker build all three anew; without a .timeindex alone, it goes
# on with an empty one (LogSegment.sanityCheck).
REBUILD_INDEXES = (
    "stop the broker and delete the segment's .index, .timeindex and .txnindex: where the .index is"
    " missing, the broker builds all of them anew when it starts"
)
OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The entries of one index, offsets absolute."""

    path: Path
    entry_bytes: int
    offset: Array
    other: Array  # position, or timestamp
    fault: str | None  # why the entries end here, if it is not the end of the file
    fault_at: int = 0

    def where(self, entry: int) -> str:
        return f"{self.path} at byte {entry * self.entry_bytes}"


def offset_index(path: Path, data: bytes, base_offset: int) -> IndexFile:
    """The entries of an `.index` file."""
    raw = _entries(data, OFFSET_ENTRY)
    offset, position = raw["offset"].astype(np.int64), raw["position"].astype(np.int64)
    used = _used(offset, position)
    left = len(data) % OFFSET_ENTRY.itemsize
    rising = (np.diff(offset[:used]) > 0) & (np.diff(position[:used]) > 0)
    return _index(path, OFFSET_ENTRY, offset + base_offset, position, used, rising, left)


def time_index(path: Path, data: bytes, base_offset: int) -> IndexFile:
    """The entries of a `.timeindex` file."""
    raw = _entries(data, TIME_ENTRY)
    offset, timestamp = raw["offset"].astype(np.int64), raw["timestamp"].astype(np.int64)
    used = _used(offset, timestamp)
    left = len(data) % TIME_ENTRY.itemsize
    rising = (np.diff(timestamp[:used]) > 0) & (np.diff(offset[:used]) >= 0)
    return _index(path, TIME_ENTRY, offset + base_offset, timestamp, used, rising, left)


def _entries(data: bytes, kind: np.dtype[np.void]) -> Array:
    return np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)


def _used(offset: Array, other: Array) -> int:
    """How many entries there are before the zeros of preallocation."""
    filled = np.flatnonzero((offset != 0) | (other != 0))
    return int(filled[-1]) + 1 if len(filled) else 0


def _index(
    path: Path,
    kind: np.dtype[np.void],
    offset: Array,
    other: Array,
    used: int,
    rising: Array,
    left: int,
) -> IndexFile:
    fault, fault_at = None, 0
    if left:
        fault = f"ends with {left} bytes that are no whole entry of {kind.itemsize}"
        fault_at = len(offset) * kind.itemsize
    if not rising.all():
        used = int(np.argmin(rising)) + 1
        fault, fault_at = "an entry does not come after the one before it", used * kind.itemsize
    return IndexFile(path, kind.itemsize, offset[:used], other[:used], fault, fault_at)


@dataclass(slots=True)
class Wrong:
    """What is wrong with one index file: its first wrong entry, and how many more there are."""

    code: str
    index: IndexFile
    first: tuple[int, str, dict[str, int]] | None = None  # entry, message, evidence
    entries: bytearray = field(init=False)  # 1: it is wrong, for one reason or for two

    def __post_init__(self) -> None:
        self.entries = bytearray(len(self.index.offset))

    def add(self, entry: int, message: str, **evidence: int) -> None:
        self.entries[entry] = 1
        if self.first is None or entry < self.first[0]:
            self.first = entry, message, evidence

    def findings(self) -> Iterator[Finding]:
        """One at most: whatever is wrong with the file, it is the file that has to go."""
        index = self.index
        if self.first is not None:
            (entry, message, told), count = self.first, sum(self.entries)
            if count > 1:
                message += f" (the first of {count} wrong entries)"
            evidence = {"entry": entry, **told, "wrong_entries": count}
            where = index.where(entry)
            yield Finding(self.code, "error", where, message, evidence, REBUILD_INDEXES)
        elif index.fault is not None:
            where = f"{index.path} at byte {index.fault_at}"
            yield Finding(self.code, "error", where, index.fault, {}, REBUILD_INDEXES)


class OffsetIndexCheck:
    """Follows the segment table by table, and the index with it."""

    def __init__(self, index: IndexFile) -> None:
        self.wrong = Wrong("offset-index-mismatch", index)
        self._index = index
        self._placed = 0  # entries whose position has been seen
        self._found = 0  # entries whose offset has been seen

    def add(self, table: BatchTable, end: int, unreadable: Array) -> None:
        """One more table of batches, which ends at file position `end`.

        Batches begin at the positions `unreadable` too, but nobody knows what they hold.
        """
        self._check_positions(table, end, unreadable)
        if len(table):
            self._check_offsets(table)

    def _check_positions(self, table: BatchTable, end: int, unreadable: Array) -> None:
        first, index = self._placed, self._index
        stop = first + int(np.searchsorted(index.other[first:], end))
        self._placed = stop
        position, offset = index.other[first:stop], index.offset[first:stop]
        begins = np.isin(position, table.position)
        for at in np.flatnonzero(~begins & ~_may_begin(position, table, unreadable)).tolist():
            self.wrong.add(
                first + at,
                f"no batch begins at position {position[at]}",
                offset=int(offset[at]),
                position=int(position[at]),
            )
        row = np.searchsorted(table.position, position[begins])
        for at, base in zip(np.flatnonzero(begins).tolist(), table.base[row].tolist(), strict=True):
            if base > offset[at]:
                self.wrong.add(
                    first + at,
                    f"says offset {offset[at]}, but the batch there begins with {base}",
                    offset=int(offset[at]),
                    position=int(position[at]),
                    base_offset=base,
                )

    def _check_offsets(self, table: BatchTable) -> None:
        """Each offset must be the last of a batch; in a cleaned batch, any that it spans."""
        first, index = self._found, self._index
        stop = first + int(np.searchsorted(index.offset[first:], table.last[-1], side="right"))
        self._found = stop
        offset = index.offset[first:stop]
        row = np.searchsorted(table.last, offset)
        cleaned = table.count[row] < table.last[row] - table.base[row] + 1
        right = (table.last[row] == offset) | (cleaned & (table.base[row] <= offset))
        right |= table.damage_before[row]  # it may be the one that cannot be read
        for at in np.flatnonzero(~right).tolist():
            self.wrong.add(
                first + at,
                f"no batch ends with offset {offset[at]}: the one that reaches it ends with"
                f" {table.last[row[at]]}",
                offset=int(offset[at]),
                position=int(index.other[first + at]),
                last_offset=int(table.last[row[at]]),
            )

    def finish(self, tail: Tail, *, damaged: bool) -> Iterator[Finding]:
        """The segment ends: nothing may point past it.

        Unless its last batches could not be read, or its tail: then they may be meant.
        """
        for entry in range(min(self._placed, self._found), len(self._index.offset)):
            position, offset = int(self._index.other[entry]), int(self._index.offset[entry])
            if position < tail.position and not damaged:
                message = f"says offset {offset}, which the segment does not reach"
            elif position >= tail.position and tail.is_sound:
                message = f"points to position {position}, past the last batch's end"
            else:
                continue
            self.wrong.add(entry, message, offset=offset, position=position, end=tail.position)
        return self.wrong.findings()


def _may_begin(position: Array, table: BatchTable, unreadable: Array) -> Array:
    """May a batch begin there that we could not see?

    An unreadable batch itself; or one inside it, since its length is as doubtful as the rest of it.
    """
    known = np.sort(np.concatenate([table.position, unreadable]))
    if not len(known):
        return np.ones(len(position), bool)
    before = known[np.maximum(np.searchsorted(known, position, side="right") - 1, 0)]
    return np.isin(before, unreadable)


class TimeIndexCheck:
    """Follows the segment table by table, and the time index with it."""

    def __init__(self, index: IndexFile) -> None:
        self.wrong = Wrong("time-index-mismatch", index)
        self._index = index
        self._found = 0
        self._largest = -1  # timestamp of all batches so far

    def add(self, table: BatchTable) -> None:
        if not len(table):
            return
        first, index = self._found, self._index
        stop = first + int(np.searchsorted(index.offset[first:], table.last[-1], side="right"))
        self._found = stop
        so_far = np.maximum.accumulate(np.append(self._largest, table.max_timestamp))
        self._largest = int(so_far[-1])
        offset, timestamp = index.offset[first:stop], index.other[first:stop]
        row = np.searchsorted(table.last, offset)
        held = table.base[row] <= offset
        right = held & (table.max_timestamp[row] == timestamp) & (so_far[row] <= timestamp)
        right |= table.damage_before[row] & ~held
        for at in np.flatnonzero(~right).tolist():
            self._say(first + at, table, int(row[at]), bool(held[at]), int(so_far[row[at]]))

    def _say(self, entry: int, table: BatchTable, row: int, held: bool, before: int) -> None:
        offset, timestamp = int(self._index.offset[entry]), int(self._index.other[entry])
        largest = int(table.max_timestamp[row])
        if not held:
            message = f"says offset {offset}, which is in no batch"
        elif largest != timestamp:
            message = f"says timestamp {timestamp}, but the batch of offset {offset} has {largest}"
        else:
            message = f"an earlier batch has a larger timestamp, {before}"
        self.wrong.add(
            entry, message, offset=offset, timestamp=timestamp, batch_max_timestamp=largest
        )

    def finish(self, tail: Tail, *, damaged: bool) -> Iterator[Finding]:
        """The segment ends: no entry may tell of more, if all of it could be read."""
        unseen = range(self._found, len(self._index.offset))
        for entry in unseen if tail.is_sound and not damaged else ():
            offset, timestamp = int(self._index.offset[entry]), int(self._index.other[entry])
            message = f"says offset {offset}, which the segment does not reach"
            self.wrong.add(entry, message, offset=offset, timestamp=timestamp)
        return self.wrong.findings()
