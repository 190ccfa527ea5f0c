"""The digests of a replica's keys, in memory that does not grow past a limit.

A table (`fold_kernels`) grows as keys come, up to `most_keys`. If there are more, it gives up half
of its buckets and goes on with the others; the log is then read again for those it gave up:

    buckets   0 ────────────── 1024 ────────── 2048 ─────────────────────── 4096
    reading 1 │ kept: digests are done │ given up │     given up             │
    reading 2                          │ kept     │     given up             │   ... and so on

Each reading takes as many buckets as the last one could keep, so there are about as many as the
keys are times `most_keys`.
"""

from __future__ import annotations

import numpy as np

from sexton.audit import fold_kernels
from sexton.audit.facts import BUCKETS, Digests
from sexton.audit.slots import slots_for
from sexton.records.columns import Columns
from sexton.records.native import address
from sexton.records.tables import Array

FIRST_SLOTS = 1 << 20  # 16 MB, of which only what is used becomes real
LOAD = 0.75  # of a table, at the most
NEVER = int(fold_kernels.NEVER)


class KeyTable:
    """Digests of all buckets, after one reading or more."""

    def __init__(self, seed: int, start: int, end: int, most_keys: int) -> None:
        self._seed, self._start, self._end = seed, start, end
        self._most_slots = slots_for(most_keys, LOAD)
        self._most_keys = most_keys
        self._scratch = np.empty(fold_kernels.SCRATCH_BYTES, np.uint8)
        self._digests = np.zeros(BUCKETS, np.uint64)
        self._low, self._high = 0, BUCKETS  # the buckets of this reading
        self._table = _table(min(slots_for(end - start, LOAD), FIRST_SLOTS, self._most_slots))
        self._used = 0
        self.keys = 0  # of the readings that are done
        self.tombstones = 0
        self._first_repeat = NEVER

    @property
    def first_repeat(self) -> int | None:
        return None if self._first_repeat == NEVER else self._first_repeat

    def take(self, columns: Columns, visible: Array) -> None:
        """The rows of visible batches; `visible` has a byte for each batch."""
        key, value = columns.key, columns.value
        batches = len(columns.headers_of_batches)
        batch = row = 0
        while batch < batches:
            self._used, batch, row, self._first_repeat, tombstones = fold_kernels.fold(
                address(columns.first_row), address(visible), batches, address(columns.offset),
                address(key.data), address(key.position), address(key.length),
                address(value.data), address(value.position), address(value.length),
                address(self._scratch), self._seed, self._start, self._end,
                self._low, self._high, address(self._table), len(self._table), self._used,
                self._room(), batch, row, self._first_repeat,
            )  # fmt: skip
            if self._low == 0:  # later readings meet them again
                self.tombstones += tombstones
            if batch < batches:
                self._make_room()

    def again(self) -> bool:
        """Ends a reading. True: buckets are left, and the log is needed once more."""
        fold_kernels.sum_up(address(self._table), len(self._table), address(self._digests))
        self.keys += self._used
        share = self._high - self._low
        self._table[:] = 0
        self._used = 0
        self._low, self._high = self._high, min(self._high + share, BUCKETS)
        return self._low < BUCKETS

    def digests(self) -> Digests:
        return self._digests.astype("<u8").tobytes()

    def _room(self) -> int:
        return min(int(len(self._table) * LOAD), self._most_keys + fold_kernels.BLOCK)

    def _make_room(self) -> None:
        """A larger table; or, where that may not be, fewer buckets."""
        slots = len(self._table)
        if slots < self._most_slots:
            slots *= 2
        else:
            assert self._high - self._low > 1, "a bucket has a 4096th of all keys"
            self._high = self._low + (self._high - self._low) // 2
        larger = _table(slots)
        self._used = fold_kernels.move(
            address(self._table), len(self._table), self._low, self._high, address(larger), slots
        )
        self._table = larger


def _table(slots: int) -> Array:
    return np.zeros((slots, fold_kernels.SLOT_BYTES // 8), np.uint64)
