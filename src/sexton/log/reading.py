"""Where in a log an offset is: segments from there on, their batches, what a fetch gets of them.

Segments are in order, but there are holes between and in them: cleaning has removed batches, and
the first one at or after an offset may begin in a later segment. Bounds are the caller's: these
functions know nothing of a high watermark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from sexton.log.indexes import AbortedTransaction
from sexton.log.segment import Segment, Slice
from sexton.records.layout import BatchHeader

BASE_OFFSET = attrgetter("base_offset")


@dataclass(frozen=True, slots=True)
class Read:
    """What a fetch gets: a stretch of one segment, and which transactions in it to leave out."""

    slice: Slice | None  # None: nothing there up to the bound
    aborted: list[AbortedTransaction] = field(default_factory=list)


def read(
    segments: list[Segment], offset: int, bound: int, max_bytes: int, *, committed: bool
) -> Read:
    """Batches from the one that holds `offset` on, all below `bound`: at least one, if any."""
    for segment in segments_from(segments, offset):
        found = segment.find(offset)
        if found is None:
            continue  # cleaning has removed the end of this segment
        position, header = found
        if header.base_offset >= bound:
            return Read(None)
        limit = segment.size
        if bound < segment.end_offset:
            past = segment.find(bound, position)
            limit = past[0] if past else segment.size
        size = max(min(max_bytes, limit - position), min(header.size, limit - position))
        if size <= 0:
            return Read(None)
        piece = Slice(segment.log, position, size)
        if not committed:
            return Read(piece)
        upper = min(bound, segment.offset_after_position(position + size))
        return Read(piece, aborted_between(segments, offset, max(upper, header.next_offset)))
    return Read(None)


def aborted_between(segments: list[Segment], start: int, end: int) -> list[AbortedTransaction]:
    """Aborted transactions with records in [start, end) and a marker at or after `start`."""
    found: list[AbortedTransaction] = []
    for segment in segments_from(segments, start):
        for entry in segment.aborted:
            if entry.last_offset >= start and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found
    return found


def batches(
    segments: list[Segment], start: int, end: int | None = None
) -> Iterator[tuple[Segment, int, BatchHeader]]:
    """Every batch from the one that holds `start` on, with its segment and position."""
    for segment in segments_from(segments, start):
        found = segment.find(start)
        if found is None:
            continue
        for position, header in segment.headers(found[0]):
            if end is not None and header.base_offset >= end:
                return
            yield segment, position, header


def segments_from(segments: list[Segment], offset: int) -> Iterator[Segment]:
    """The segment in whose range an offset is, and all after it."""
    if offset >= segments[-1].base_offset:  # most of what is asked for is new
        yield segments[-1]
        return
    number = max(0, bisect_right(segments, offset, key=BASE_OFFSET) - 1)
    while number < len(segments):
        yield segments[number]
        number += 1
