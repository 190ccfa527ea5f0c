"""Is a table what its topic says? The last record of each key beside the rows of the table.

    topic, per partition   last value of each key ──▶ digests of buckets ┐
    table, per file        key and value of each row ─▶ digests of buckets ┴─ where they differ:
                                                                             the keys in it, both

As in the audit, digests are compared first: sums over keys, in whatever order and partition they
come. Only buckets that differ are read again, key by key. A key whose last record is a delete must
not be in the table. Values are compared by 64 bits of what they are, 0 for null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from sexton.audit import state_kernels as kernels
from sexton.audit.checks import MOST_KEYS
from sexton.audit.expressions import Expression, parts
from sexton.audit.facts import BUCKETS
from sexton.audit.fields import EMPTY, FOUND, UNREADABLE, Read, Rows, fingerprints_of
from sexton.audit.state_table import StateTable
from sexton.audit.texts import texts
from sexton.records.columns import Spans
from sexton.records.tables import Array

MOST_ENTRIES: Final = 2_000_000  # of all differing buckets, on the driver
Fault = Literal["stale", "missing", "different", "twice"]
DELETED: Final = -1  # in place of an offset


@dataclass(frozen=True, slots=True)
class Sums:
    """Of one partition or one file."""

    digests: bytes  # BUCKETS little-endian uint64
    keys: int
    records: int
    bytes: int
    without_key: int = 0

    def words(self) -> Array:
        return np.frombuffer(self.digests, np.uint64)


@dataclass(frozen=True, slots=True)
class Held:
    """The keys of some buckets: of one partition, or of one file."""

    prints: Array  # (n, 2) uint64
    values: Array  # uint64
    offsets: Array  # int64; DELETED: the last record is a delete. Of a file: the row
    partition: int


class TopicSide:
    """One partition, folded to the last record of each key."""

    def __init__(
        self, key: str, value: Expression | None, seed: int, most_keys: int = MOST_KEYS
    ) -> None:
        (self._key,) = parts(key, "--key")  # of several parts no column is made
        self._value, self._seed = value, seed
        self._table = StateTable(kernels.LAST, most_keys, may_read_again=False)
        self._records = self._without_key = 0

    def take_rows(self, rows: Rows) -> None:
        keys, values = self._both(rows)
        status = np.where(rows.columns.value.length[rows.rows] < 0, EMPTY, FOUND).astype(np.uint8)
        status[keys.status != FOUND] = UNREADABLE
        self._without_key += int(np.count_nonzero(keys.status != FOUND))
        self._records += len(rows)
        self._table.take(keys.values, status, values.view(np.int64), rows.offsets)

    def _both(self, rows: Rows) -> tuple[Read, Array]:
        spans = texts(self._key, rows)
        keys = fingerprints_of(spans, self._seed)
        if self._value is None:
            return keys, np.zeros(len(rows), np.uint64)
        return keys, value_words(texts(self._value, rows), self._seed)

    def sums(self, size: int) -> Sums:
        digests = self._table.digests().tobytes()
        keys = len(self._table.entries)
        return Sums(digests, keys, self._records, size, self._without_key)

    def held(self, buckets: Array, partition: int) -> Held:
        """Those of these buckets (a flag for each), deleted ones too."""
        slots = self._table.slots
        slots = slots[buckets[(slots[:, 0] >> np.uint64(kernels.BUCKET_SHIFT)).astype(np.int64)]]
        offsets = slots[:, 3].astype(np.int64) - kernels.SHIFT
        return Held(slots[:, :2].copy(), slots[:, 2].copy(), offsets, partition)


class TableSide:
    """One file of the table, row by row."""

    def __init__(self, seed: int, buckets: Array | None = None) -> None:
        self._seed, self._buckets = seed, buckets
        self._digests = np.zeros(BUCKETS, np.uint64)
        self._held: list[tuple[Array, Array, Array]] = []
        self._rows = self._without_key = 0

    def take(self, keys: Spans, values: Spans | None) -> None:
        prints = fingerprints_of(keys, self._seed)
        count = len(keys)
        words = np.zeros(count, np.uint64) if values is None else value_words(values, self._seed)
        there = np.flatnonzero(prints.status == FOUND)
        self._without_key += count - len(there)
        numbers = np.arange(self._rows, self._rows + count, dtype=np.int64)
        self._rows += count
        found, words, numbers = prints.values[there], words[there], numbers[there]
        buckets = (found[:, 0] >> np.uint64(kernels.BUCKET_SHIFT)).astype(np.int64)
        if self._buckets is None:
            np.add.at(self._digests, buckets, mixed(found, words))
        else:
            chosen = self._buckets[buckets]
            self._held.append((found[chosen], words[chosen], numbers[chosen]))

    def sums(self, size: int) -> Sums:
        keys = self._rows - self._without_key
        return Sums(self._digests.tobytes(), keys, self._rows, size, self._without_key)

    def held(self, file: int) -> Held:
        if not self._held:
            none = np.empty(0, np.int64)
            return Held(np.empty((0, 2), np.uint64), none.view(np.uint64), none, file)
        columns = zip(*self._held, strict=True)
        prints, values, rows = (np.concatenate(column) for column in columns)
        return Held(prints, values, rows, file)


def value_words(values: Spans, seed: int) -> Array:
    """64 bits of each value; 0 for null."""
    read = fingerprints_of(values, seed)
    return np.where(read.status == FOUND, read.values[:, 0] | np.uint64(1), np.uint64(0))


def mixed(prints: Array, words: Array) -> Array:
    """As `state_kernels.sum_up` does for a slot."""
    left = prints[:, 0] ^ np.uint64(0x9E3779B97F4A7C15)
    right = prints[:, 1] ^ (words * np.uint64(0xD1B54A32D192ED03))
    mixed_words: Array = (left * right) ^ _high(left, right) ^ words
    return mixed_words


def _high(left: Array, right: Array) -> Array:
    """The upper half of a 64 by 64 bit product, by halves."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a, b, c, d = left >> half, left & low, right >> half, right & low
    middle = a * d + ((b * d) >> half)
    other = b * c + (middle & low)
    upper: Array = a * c + (middle >> half) + (other >> half)
    return upper


def differing(topic: Sequence[Sums], table: Sequence[Sums]) -> Array:
    """A flag for each bucket in which the two do not agree."""
    sums = [np.zeros(BUCKETS, np.uint64), np.zeros(BUCKETS, np.uint64)]
    for total, parts_of in zip(sums, (topic, table), strict=True):
        for each in parts_of:
            total += each.words()
    flags: Array = sums[0] != sums[1]
    return flags


@dataclass(frozen=True, slots=True)
class Difference:
    fault: Fault
    partition: int  # of the topic; -1: the topic does not have it
    offset: int
    file: int  # of the table; -1: the table does not have it
    row: int


def compare(topic: Sequence[Held], table: Sequence[Held]) -> list[Difference]:
    """Every key of these buckets that is not the same on both sides."""
    rows: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for held in table:
        for print_, value, row in zip(
            held.prints.tolist(), held.values.tolist(), held.offsets.tolist(), strict=True
        ):
            rows.setdefault((print_[0], print_[1]), []).append((held.partition, row, value))
    found: list[Difference] = []
    for held in topic:
        for print_, value, offset in zip(
            held.prints.tolist(), held.values.tolist(), held.offsets.tolist(), strict=True
        ):
            there = rows.pop((print_[0], print_[1]), [])
            at = (held.partition, offset)
            if offset == DELETED:
                found += [Difference("stale", *at, file, row) for file, row, _value in there]
            elif not there:
                found.append(Difference("missing", *at, -1, -1))
            else:
                found += [
                    Difference("different" if number == 0 else "twice", *at, file, row)
                    for number, (file, row, other) in enumerate(there)
                    if other != value or number
                ]
    found += [
        Difference("stale", -1, -1, file, row)
        for there in rows.values()
        for file, row, _value in there
    ]
    return found
