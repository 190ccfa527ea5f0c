"""What a pass will do, before it looks at a single record.

Forward over the headers of all batches: each one's fate (`cleaner_rules`), which stretches of the
files are read at once, and which neighbouring segments go into one file.

    segments   │ 0 ........ │ 1 ...... │ 2 .. │
    chunks     │ a │ b │ c  │ d │ e    │ f    │     judged from the last to the first
    groups     │ first file │  second file    │     written from the first to the last

A plan is made from a `Source`: the sealed segments and the producers as they were when the pass
began. Nothing else of the log is looked at, so the log may go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.log.cleaner_bounds import Bounds, LastBatches, Policy
from sexton.log.cleaner_kernels import STAYS_EMPTY
from sexton.log.cleaner_rules import Transactions, fates
from sexton.log.config import LogConfig
from sexton.log.indexes import AbortedTransaction
from sexton.log.names import LOG
from sexton.log.partition import PartitionLog
from sexton.log.segment import MOST_RELATIVE_OFFSET, Segment
from sexton.log.walking import Walked, walk
from sexton.records.control import ControlRecord, first_control_record
from sexton.records.layout import CODEC_MASK, CONTROL
from sexton.records.tables import Array, HeaderTable, last_offsets
from sexton.records.tables import field as column

# What is judged and written at once: small enough to stay in the CPU's cache. Compressed batches
# are three or four times as large when they are judged.
CHUNK_BYTES = 4 << 20
PACKED_CHUNK_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """All of a log that a pass looks at, taken down in one moment."""

    directory: str
    config: LogConfig
    segments: list[Segment]  # sealed ones
    sizes: list[int]  # of their log files
    ends: list[int]  # the offset at which the next one begins
    aborted: list[AbortedTransaction]  # also of later segments: a marker may be far from its data
    last_batches: LastBatches

    @classmethod
    def of(cls, log: PartitionLog, end: int) -> Source:
        segments = [s for s in log.segments[:-1] if s.base_offset < end]
        return cls(
            log.directory,
            log.config,
            segments,
            [segment.size for segment in segments],
            [following.base_offset for following in log.segments[1 : len(segments) + 1]],
            [entry for segment in log.segments for entry in segment.aborted],
            LastBatches.of(log),
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    segment: int
    start: int  # position in the segment's file
    end: int
    fates: Array  # one a batch
    records: int


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbours that go into one file."""

    segments: list[Segment]
    chunks: list[Chunk]
    aborted: list[AbortedTransaction]  # what the index of the cleaned segment keeps


def plan(source: Source, bounds: Bounds) -> list[Group]:
    """Walks the headers of all batches, first to last."""
    transactions = Transactions(sorted(source.aborted, key=lambda e: e.first_offset))
    unsettled = _Unsettled(source.last_batches.unsettled, bounds)
    groups: list[Group] = []
    for numbers in _grouped(source):
        group = Group([source.segments[number] for number in numbers], [], [])
        for number in numbers:
            transactions.retained = []
            group.chunks.extend(_judged(source, number, transactions, unsettled, bounds))
            group.aborted.extend(transactions.retained)
        groups.append(group)
    unsettled.stay()
    return groups


class _Unsettled:
    """The last batches of producers who have written above the high watermark, of both kinds.

    Data holds a sequence, a marker an epoch. Which of them will be the last is not known before all
    have been seen. Apache Kafka lets them go, and so does its policy here.
    """

    def __init__(self, producers: frozenset[int], bounds: Bounds) -> None:
        self._producers = producers if bounds.policy is Policy.COORDINATED else frozenset()
        self._end = bounds.end
        self._last: dict[tuple[int, bool], tuple[Array, int]] = {}  # fates of a stretch, which one

    def pass_by(self, headers: HeaderTable, fate: Array) -> None:
        if not self._producers:
            return
        producers, attributes = column(headers, "producer_id"), column(headers, "attributes")
        theirs = np.isin(producers, list(self._producers)) & (last_offsets(headers) < self._end)
        for index in np.flatnonzero(theirs).tolist():
            kind = (int(producers[index]), bool(attributes[index] & CONTROL))
            self._last[kind] = (fate, index)

    def stay(self) -> None:
        for fate, index in self._last.values():
            fate[index] |= STAYS_EMPTY


def _judged(
    source: Source,
    number: int,
    transactions: Transactions,
    unsettled: _Unsettled,
    bounds: Bounds,
) -> Iterator[Chunk]:
    """The batches of a segment in stretches, each with its fate."""
    segment = source.segments[number]
    reached = segment.base_offset
    for walked in walk(segment.log, source.sizes[number], segment.path(LOG)):
        reached = _in_order(walked, reached, source.ends[number], segment.path(LOG))
        markers = list(_control_records(segment, walked))
        fate = fates(walked.headers, markers, transactions, source.last_batches, bounds)
        unsettled.pass_by(walked.headers, fate)
        counts = column(walked.headers, "records_count").astype(np.int64)
        for first, stop in _stretches(walked):
            yield Chunk(
                number,
                int(walked.position[first]),
                int(walked.ends[stop - 1]),
                fate[first:stop],
                int(counts[first:stop].sum()),
            )


def _stretches(walked: Walked) -> Iterator[tuple[int, int]]:
    """Batches [first, stop) that are judged at once; one batch may be larger than a chunk."""
    packed = column(walked.headers, "attributes") & CODEC_MASK
    size = PACKED_CHUNK_BYTES if packed.any() else CHUNK_BYTES
    first = 0
    while first < len(walked.headers):
        most = int(walked.position[first]) + size
        stop = max(int(np.searchsorted(walked.ends, most, "right")), first + 1)
        yield first, stop
        first = stop


def _in_order(walked: Walked, reached: int, end: int, where: str) -> int:
    """Offsets go up and stay in their segment; no checksum covers a batch's base offset."""
    ends = last_offsets(walked.headers) + 1
    starts = np.concatenate([np.array([reached]), ends[:-1]])
    wrong = np.flatnonzero((column(walked.headers, "base_offset") < starts) | (ends > end))
    if len(wrong):
        offset = int(walked.headers["base_offset"][wrong[0]])
        raise CorruptLog(where, f"a batch at offset {offset} is out of order")
    return int(ends[-1])


def _control_records(segment: Segment, walked: Walked) -> Iterator[ControlRecord | None]:
    control = np.flatnonzero(column(walked.headers, "attributes") & CONTROL)
    positions, ends = walked.position[control], walked.ends[control]
    for position, end in zip(positions.tolist(), ends.tolist(), strict=True):
        batch = segment.log.read_at(position, end - position)
        yield first_control_record(batch, f"{segment.path(LOG)} near byte {position}")


def _grouped(source: Source) -> list[list[int]]:
    """Which neighbours go into one file: as many as fit, by their sizes before cleaning."""
    groups: list[list[int]] = []
    size = index_size = time_size = 0
    for number, segment in enumerate(source.segments):
        sizes = (source.sizes[number], segment.offsets.size_bytes, segment.times.size_bytes)
        first = source.segments[groups[-1][0]].base_offset if groups else 0
        fits = (
            bool(groups)
            and size + sizes[0] <= source.config.segment_bytes
            and index_size + sizes[1] <= source.config.segment_index_bytes
            and time_size + sizes[2] <= source.config.segment_index_bytes
            and segment.end_offset - 1 - first <= MOST_RELATIVE_OFFSET
        )
        if fits:
            groups[-1].append(number)
            size += sizes[0]
            index_size += sizes[1]
            time_size += sizes[2]
        else:
            groups.append([number])
            size, index_size, time_size = sizes
    return groups
