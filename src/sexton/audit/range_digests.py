"""Digests of offset ranges, for topics that are not compacted.

Without compaction a follower's log is its leader's, byte for byte but for the leader epochs, which
are not under the checksum. So offsets and checksum of each batch say all, and no record has to be
looked at; that the checksum is right is checked at the speed of memory.
"""

from __future__ import annotations

import numpy as np

from sexton.audit.facts import BUCKETS, Damage, Digests
from sexton.records import kernels, tables
from sexton.records.decoder import Batches
from sexton.records.native import address
from sexton.records.tables import Array

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_LAST = np.uint64(0xD1B54A32D192ED03)
_CRC = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)
MOST_GAPS = 1_000
WRONG = "the checksum does not match: the bytes changed after they were written"


def range_step(start: int, end: int) -> int:
    """How many offsets a range has; the last ones may be beyond the end."""
    return max(1, -(-(end - start) // BUCKETS))


class RangeDigests:
    """BUCKETS ranges of equal length over [start, end)."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._end = start, end
        self._digests = np.zeros(BUCKETS, np.uint64)
        self._next: int | None = None  # after the last batch
        self.gaps: list[tuple[int, int]] = []

    def take(self, batches: Batches) -> list[Damage]:
        """Adds the batches that have offsets in the scope; returns those that are damaged."""
        headers = batches.headers
        base, last = tables.field(headers, "base_offset"), tables.last_offsets(headers)
        crc = tables.field(headers, "crc").astype(np.uint64)
        mixed = (base.astype(np.uint64) * _FIRST) ^ (last.astype(np.uint64) * _LAST) ^ (crc * _CRC)
        mixed = (mixed ^ (mixed >> _SHIFT)) * _FIRST
        mixed ^= mixed >> _SHIFT
        inside = (last >= self._start) & (base < self._end)
        step = range_step(self._start, self._end)
        bucket = np.maximum(base[inside] - self._start, 0) // step
        np.add.at(self._digests, bucket, mixed[inside])
        self._note_gaps(base, last, tables.field(headers, "records_count"))
        return _damaged(batches)

    def _note_gaps(self, base: Array, last: Array, counts: Array) -> None:
        """Between batches whose offsets do not follow each other; and batches that lack records."""
        if not len(base):
            return
        after = last + 1
        before = np.concatenate(([base[0] if self._next is None else self._next], after[:-1]))
        apart = (base > before) & (before >= self._start) & (base <= self._end)
        thinned = (after - base != counts) & (base >= self._start) & (base < self._end)
        for index in np.flatnonzero(apart | thinned)[:MOST_GAPS].tolist():
            if apart[index]:
                self.gaps.append((int(before[index]), int(base[index])))
            if thinned[index]:
                self.gaps.append((int(base[index]), int(after[index])))
        del self.gaps[MOST_GAPS:]
        self._next = int(after[-1])

    def digests(self) -> Digests:
        return self._digests.astype("<u8").tobytes()


def _damaged(batches: Batches) -> list[Damage]:
    status = np.zeros(len(batches), np.int32)
    position = np.ascontiguousarray(batches.position)
    if not kernels.check_crcs(
        address(batches.data), address(position), len(batches), address(status)
    ):
        return []
    (bad,) = np.nonzero(status)
    firsts, lasts = batches.headers["base_offset"][bad], tables.last_offsets(batches.headers[bad])
    return [
        Damage(int(first), int(last), WRONG, crc=True)
        for first, last in zip(firsts, lasts, strict=True)
    ]
