"""Which batches have an offset that cannot be theirs?

No checksum covers a batch's base offset: a flipped bit there leaves a batch that decodes and stands
in the wrong place. Compared pair by pair, it would also make its neighbours look wrong, and every
index entry, sequence and transaction near it. So the fewest batches are sought without which all
others rise, inside the bounds of their segment:

    0 1 2 67 4 5 6        67 is out of place; 4, which comes after it, is not

Those are named once, and from there on count as batches that could not be read. Where most batches
of a table would have to go, the segment as a whole is in the wrong place, and that is said instead.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from sexton.log.inspect.table import BatchTable
from sexton.records.tables import Array

MOST_RELATIVE_OFFSET = (1 << 31) - 1  # an index notes offsets in 31 bits, from the segment's own


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which offsets the batches of a segment must be; None: nobody knows."""

    start: int | None  # the segment's name
    end: int | None  # where the next segment begins
    after: int | None  # the last offset that was read before
    before: int | None  # one that the batches read afterwards begin with

    def too_early(self, table: BatchTable) -> Array:
        return table.base < (0 if self.start is None else self.start)

    def too_late(self, table: BatchTable) -> Array:
        late = np.zeros(len(table), bool)
        if self.start is not None:
            late |= table.last - self.start > MOST_RELATIVE_OFFSET
        if self.end is not None:
            late |= table.last >= self.end
        return late


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A batch that is out of place."""

    row: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Placement:
    """What is out of place in a table."""

    astray: list[Misplaced]
    whole: bool  # most of it; `astray` names only the first


def judge_places(table: BatchTable, bounds: Bounds) -> Placement:
    """Which batches are out of place, or is it all of them?"""
    early, late = bounds.too_early(table), bounds.too_late(table)
    beyond = table.last >= (
        table.last.max(initial=0) + 1 if bounds.before is None else bounds.before
    )
    inside = np.flatnonzero(~early & ~late & ~beyond)
    after = -1 if bounds.after is None else bounds.after
    unordered = inside[out_of_order(table.base[inside], table.last[inside], after)]
    unordered = np.concatenate([unordered, np.flatnonzero(beyond)])
    codes = dict.fromkeys(unordered.tolist(), "offsets-not-increasing")
    codes |= dict.fromkeys(np.flatnonzero(late).tolist(), "offset-past-segment")
    codes |= dict.fromkeys(np.flatnonzero(early).tolist(), "offset-before-segment")
    whole = 2 * len(codes) > len(table)
    kept = np.delete(np.arange(len(table)), list(codes))
    told = sorted(codes)[: 1 if whole else None]
    astray = [
        Misplaced(row, codes[row], _why(table, row, codes[row], bounds, kept)) for row in told
    ]
    return Placement(astray, whole)


def _why(table: BatchTable, row: int, code: str, bounds: Bounds, kept: Array) -> str:
    first, last = int(table.base[row]), int(table.last[row])
    match code:
        case "offset-before-segment":
            return f"begins with offset {first}, but the segment's name says {bounds.start}"
        case "offset-past-segment" if bounds.end is not None and last >= bounds.end:
            return f"ends with offset {last}, but the next segment begins at {bounds.end}"
        case "offset-past-segment":
            return f"ends with offset {last}, too far from {bounds.start}, the segment's beginning"
    # As few as possible were left out, so one of the two that stay around it contradicts it.
    place = int(np.searchsorted(kept, row))
    before = int(table.last[kept[place - 1]]) if place else bounds.after
    if before is not None and first <= before:
        return f"begins with offset {first}, but the batch before it ends with {before}"
    after = table.base[kept[place]] if place < len(kept) else bounds.before
    return f"ends with offset {last}, but the batch after it begins with {after}"


def out_of_order(first: Array, last: Array, after: int) -> Array:
    """Rows to leave out, as few as possible, so that every one begins after the one before it."""
    before = np.append(after, last[:-1])
    if not len(first) or bool((first > before).all()):
        return np.empty(0, np.int64)
    firsts, lasts = first.tolist(), last.tolist()
    ends: list[int] = []  # of each length, where the chain ends that ends earliest ...
    heads: list[int] = []  # ... the row it ends with ...
    previous = [-1] * len(firsts)  # ... and the row before that one
    for row, (start, stop) in enumerate(zip(firsts, lasts, strict=True)):
        length = bisect_left(ends, start)
        if start <= after or (length < len(ends) and stop >= ends[length]):
            continue
        previous[row] = heads[length - 1] if length else -1
        ends[length : length + 1] = [stop]
        heads[length : length + 1] = [row]
    kept = np.zeros(len(firsts), bool)
    row = heads[-1] if heads else -1
    while row >= 0:
        kept[row] = True
        row = previous[row]
    return np.flatnonzero(~kept)
