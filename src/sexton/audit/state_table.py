"""The last state of every key of a partition, in memory that does not grow past a limit.

A table (`state_kernels`) grows as keys come. Keys that were forgotten make way for others first.
Where the partition can be read again and there are more than `most_keys`, it gives up half of its
buckets and goes on with the others; the log is then read again for those it gave up, as in
`key_table`. A stream cannot be read again: there the limit is an error, which says what to raise.

What a stream keeps between batches are entries: slots as they stand in the table.
"""

from __future__ import annotations

import numpy as np

from sexton.audit import state_kernels as kernels
from sexton.audit.facts import BUCKETS
from sexton.audit.slots import slots_for
from sexton.base.errors import ConfigError
from sexton.records.native import address
from sexton.records.tables import Array

FIRST_SLOTS = 1 << 16
LOAD = 0.7
FULL = 7 / 8  # of its room; with fewer keys that are not forgotten, a table need not grow
EVENTS_AT_ONCE = 1 << 14
Entries = Array  # (n, 4) uint64: two words of a fingerprint, a number, an offset and a little


class StateTable:
    def __init__(self, mode: int, most_keys: int, *, may_read_again: bool = True) -> None:
        self.mode = mode
        self.low, self.high = 0, BUCKETS  # the buckets of this reading
        self._done = False
        self._counted = 0  # keys of the readings before this one
        self._most_keys = most_keys
        self._may_read_again = may_read_again
        self._table = _table(min(FIRST_SLOTS, slots_for(most_keys, LOAD)))
        self._used = 0
        self._events = np.empty((EVENTS_AT_ONCE, kernels.EVENT_BYTES // 8), np.int64)

    def take(self, prints: Array, status: Array, numbers: Array, offsets: Array) -> Array:
        """Folds rows; returns events: row, kind, last number, last offset, bucket."""
        found: list[Array] = []
        row = 0
        while row < len(status):
            row, self._used, count = kernels.fold(
                address(prints), address(numbers), address(status), address(offsets), len(status),
                row, self.mode, self.low, self.high, address(self._table), len(self._table),
                self._used, self._room(), address(self._events), EVENTS_AT_ONCE,
            )  # fmt: skip
            if count:
                found.append(self._events[:count].copy())
            if row < len(status) and self._used >= self._room():
                self._make_room()
        return np.concatenate(found) if found else self._events[:0]

    def again(self) -> bool:
        """Ends a reading. True: buckets were given up, and the log is needed once more."""
        if self._done:
            return False
        share = self.high - self.low
        if self.high >= BUCKETS:
            self._done = True
            self.low = self.high  # another table may still need a reading: this one does not
            return False
        self._counted += self._used
        self._table[:] = 0
        self._used = 0
        self.low, self.high = self.high, min(self.high + share, BUCKETS)
        return True

    # ── what it holds ──

    @property
    def done(self) -> bool:
        return self._done

    @property
    def keys(self) -> int:
        """How many were met, deleted ones included as far as they are remembered."""
        return self._counted + self._used

    @property
    def bytes_held(self) -> int:
        return int(self._table.nbytes)

    @property
    def entries(self) -> Entries:
        """Of every key that is known and was not forgotten."""
        return self._table[self._table[:, 3] >= kernels.SHIFT]

    @property
    def slots(self) -> Entries:
        """Of every key that was met, forgotten ones among them."""
        met: Entries = self._table[self._table[:, 3] != 0]
        return met

    def of(self, prints: Array) -> Entries:
        """Of these keys, as they stand now, one for each; what is not there is forgotten."""
        out = np.empty((len(prints), 4), np.uint64)
        kernels.pick(
            address(prints), len(prints), address(self._table), len(self._table), address(out)
        )
        return out

    def put(self, entries: Entries) -> None:
        """Entries that were kept; a later one replaces an earlier one."""
        entries = np.ascontiguousarray(entries)
        while self._used + len(entries) >= self._room():
            self._make_room(len(entries))
        self._used = kernels.put(
            address(entries), len(entries), address(self._table), len(self._table), self._used
        )

    def look_up(self, prints: Array, status: Array) -> tuple[Array, Array]:
        """The numbers of these keys; what is not known is UNREADABLE."""
        numbers, found = np.empty(len(prints), np.int64), np.empty(len(prints), np.uint8)
        kernels.look_up(
            address(prints), address(status), len(prints), address(self._table), len(self._table),
            address(numbers), address(found),
        )  # fmt: skip
        return numbers, found

    def digests(self) -> Array:
        """One sum a bucket; the same for the same keys with the same numbers."""
        sums = np.zeros(BUCKETS, np.uint64)
        kernels.sum_up(address(self._table), len(self._table), address(sums))
        return sums

    # ── room ──

    def _room(self) -> int:
        return int(len(self._table) * LOAD)

    def _make_room(self, more: int = 1) -> None:
        """Towards so many more keys: whoever has none for all of them asks again."""
        slots = len(self._table)
        alive = int(np.count_nonzero(self._table[:, 3] >= kernels.SHIFT))
        if alive > self._most_keys:
            if not self._may_read_again:
                why = f"has more than {self._most_keys:,} keys or ids in one partition"
                raise ConfigError("the topic", why, "raise --most-keys: each takes 32 to 64 bytes")
            assert self.high - self.low > 1, "a bucket has a 4096th of all keys"
            self.high = self.low + (self.high - self.low) // 2
        elif alive + more > self._room() * FULL:
            slots *= 2
        moved = _table(slots)
        self._used = kernels.move(
            address(self._table), len(self._table), self.low, self.high, address(moved), slots
        )
        self._table = moved


def _table(slots: int) -> Array:
    return np.zeros((slots, kernels.SLOT_BYTES // 8), np.uint64)
