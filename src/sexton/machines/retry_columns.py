"""A million records of a lock or retry topic: which ids are alive at the end?

Most rows are of messages long settled: a lock, and its tombstone a little later. So a chunk is
first reduced by columns to the last row of each id; what is left alive is looked at one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_records import TaskName
from sexton.records.columns import Spans
from sexton.records.tables import Array

NOT_AN_ID = -1
MOST_DIGITS = 18


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some records of one partition, in log order."""

    offset: Array  # int64
    key: Spans
    value: Spans

    def __len__(self) -> int:
        return len(self.offset)


def ids_of(name: TaskName, keys: Spans) -> Array:
    """For each row the id of its message, or -1: see `TaskName.offset_of`.

    Eight bytes at a time: the prefix is compared in words, and so many digits are made a number by
    three multiplications. What a word would reach over the end of the buffer for, and ids of more
    than sixteen digits, are left to Python.
    """
    prefix = name.prefix
    position, length = keys.position.astype(np.int64), keys.length.astype(np.int64)
    digits = length - len(prefix)
    fits = (digits >= 1) & (digits <= MOST_DIGITS)
    end = position + length
    easy = fits & (digits <= 16) & (end >= 16) & (end + 8 <= len(keys.data))
    easy &= position + len(prefix) + 8 <= len(keys.data)
    found = np.full(len(keys), NOT_AN_ID, np.int64)
    rows = np.flatnonzero(easy)
    if len(rows):
        words = np.ndarray((len(keys.data) - 7,), "<u8", keys.data, strides=(1,))
        good = _begins_with(words, position[rows], prefix)
        number, all_digits = _number(words, end[rows], digits[rows])
        leading = keys.data[position[rows] + len(prefix)] == ord("0")
        good &= all_digits & ~(leading & (digits[rows] > 1))
        found[rows[good]] = number[good]
    for row in np.flatnonzero(fits & ~easy).tolist():
        offset = name.offset_of(keys[row] or b"")
        found[row] = NOT_AN_ID if offset is None else offset
    return found


def _begins_with(words: Array, position: Array, prefix: bytes) -> Array:
    same = np.ones(len(position), np.bool_)
    for at in range(0, len(prefix), 8):
        part = prefix[at : at + 8]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        same &= words[position + at] & mask == np.uint64(int.from_bytes(part, "little"))
    return same


def _number(words: Array, end: Array, digits: Array) -> tuple[Array, Array]:
    """Of the up to sixteen digits in front of `end`; and whether they are digits."""
    low, good = _eight(words[end - 8], np.minimum(digits, 8))
    if int(digits.max()) <= 8:
        return low, good
    high, also_good = _eight(words[end - 16], np.maximum(digits - 8, 0))
    return high * 100_000_000 + low, good & also_good


def _eight(word: Array, count: Array) -> tuple[Array, Array]:
    """The last `count` bytes of each word are digits; the last byte is the highest one."""
    shift = (8 * (8 - count)).astype(np.uint64)
    kept = np.where(count > 0, ~np.uint64(0) << np.minimum(shift, np.uint64(63)), np.uint64(0))
    value = (word & kept) - (np.uint64(0x3030303030303030) & kept)
    # A byte below "0" borrows, one above "9" has its high nibble set after adding six.
    high = np.uint64(0xF0F0F0F0F0F0F0F0)
    six = np.uint64(0x0606060606060606)
    good = ((word & kept & high) == (np.uint64(0x3030303030303030) & kept)) & (
        ((value + six) & high) == 0
    )
    pairs = (value * np.uint64(10) + (value >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(100) + (pairs >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    eights = (fours * np.uint64(10_000) + (fours >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
    return eights.astype(np.int64), good


@dataclass(frozen=True, slots=True, eq=False)
class Last:
    """What each id comes to in some rows."""

    gone: Array  # ids whose last row is a tombstone, in order
    live: list[int]
    live_rows: Array
    others: list[int]  # rows whose key is no id of this task

    def gone_of(self, known: Mapping[int, object]) -> list[int]:
        """Those of `known` that are gone: few, where a million are."""
        some = np.fromiter(known, np.int64, len(known))
        at = np.minimum(np.searchsorted(self.gone, some), len(self.gone) - 1)
        found: list[int] = some[self.gone[at] == some].tolist() if len(self.gone) else []
        return found

    def values(self, rows: Rows) -> list[bytes]:
        return [value or b"" for value in rows.value.take(self.live_rows).to_list()]

    def offsets(self, rows: Rows) -> list[int]:
        found: list[int] = rows.offset[self.live_rows].tolist()
        return found


def last_of_each(name: TaskName, rows: Rows) -> Last:
    ids = ids_of(name, rows.key)
    is_id = ids != NOT_AN_ID
    numbers = np.flatnonzero(is_id)
    order = numbers[np.argsort(ids[numbers], kind="stable")]
    ordered = ids[order]
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = ordered[1:] != ordered[:-1]
    last = order[is_last]
    is_gone = rows.value.length[last] < 0
    live_rows = last[~is_gone]
    others = np.flatnonzero(~is_id).tolist()
    return Last(ids[last[is_gone]], ids[live_rows].tolist(), live_rows, others)
