"""From a log to blocks of selected rows, each with the outcome of its batches' transactions.

    segment ──▶ chunk ──▶ columns ──select──▶ Block
                   └── transactional batches ──▶ Outcomes, which reads ahead for their markers

What is asked for is selected on columns, so a filter that leaves one record of a gigabyte costs a
decode of the gigabyte and one Python object. Segments and batches that a header or a name already
rules out are not decoded at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from sexton.base.findings import Finding
from sexton.log.inspect.outcomes import Outcomes
from sexton.log.inspect.paths import PartitionFiles, SegmentFile
from sexton.log.inspect.reading import Advance, Chunk, decoded, open_segment
from sexton.log.inspect.reporting import Reporter, at, os_fault
from sexton.log.inspect.segment_checks import judge_tail
from sexton.log.inspect.selection import PLAIN, Selection
from sexton.log.inspect.transactions import NOWHERE
from sexton.records import Columns, Decoder
from sexton.records.layout import CONTROL, TRANSACTIONAL
from sexton.records.tables import Array, field, last_offsets


@dataclass(frozen=True, slots=True)
class Block:
    """Some batches of one segment; valid until the next block is asked for."""

    partition: str
    segment: SegmentFile
    columns: Columns
    selection: Selection
    position: Array  # of each batch in the segment
    outcome: Array  # of each batch; PLAIN: not in a transaction
    marker: Array  # of each batch; NOWHERE: none yet

    def record_rows(self) -> Array:
        """The selected records."""
        return self.selection.records(self.columns, self.outcome)

    def batch_rows(self) -> Array:
        """The batches that may hold a selected record, whatever its key."""
        headers = self.columns.headers_of_batches
        return self.selection.batches(headers, self.outcome)


def blocks(
    partition: PartitionFiles,
    selection: Selection,
    report: Callable[[Finding], None],
    skip: Callable[[str, str], None],
    *,
    advance: Advance = lambda _count: None,
) -> Iterator[Block]:
    """Everything of a partition that may hold something selected, in log order."""
    reporter = Reporter(report, skip)
    name = partition.name.partition("/")[0]
    decoder = Decoder()
    segments = _wanted(partition.segments, selection)
    with closing(Outcomes(partition.onwards(segments[0]) if segments else [])) as outcomes:
        for segment, chunk in _chunks(partition, segments, selection, reporter, advance):
            rows = (chunk.file_position, *_outcomes_of(chunk, outcomes))
            for part in decoded(chunk, decoder, str(segment.path)):
                first, stop = part.first, part.first + len(part.columns.headers_of_batches)
                for bad in part.bad:
                    position = int(chunk.file_position[first + bad.index])
                    reporter.bad_batch(segment.path, position, bad)
                of_part = (each[first:stop] for each in rows)
                yield Block(name, segment, part.columns, selection, *of_part)
    reporter.finish()


def _chunks(
    partition: PartitionFiles,
    segments: list[SegmentFile],
    selection: Selection,
    reporter: Reporter,
    advance: Advance,
) -> Iterator[tuple[SegmentFile, Chunk]]:
    """The chunks that may hold something selected."""
    buffers: list[Array] = []
    for segment in segments:
        read = 0
        try:
            reader = open_segment(segment, buffers)
            for whole in reader.chunks():
                chunk = _narrowed(whole, selection)
                if len(chunk.batches):
                    yield segment, chunk
                advance(whole.end - read)
                read = whole.end
                buffers.append(whole.buffer)
                if _is_past(whole, selection):
                    break
            else:
                assert reader.tail is not None
                active = partition.is_active(segment)
                judge_tail(segment, reader.tail, reporter, active=active)
        except OSError as error:
            reporter.skip(at(segment.path, read), os_fault(error))


def _wanted(segments: tuple[SegmentFile, ...], selection: Selection) -> list[SegmentFile]:
    """Segments that can hold a wanted offset: one ends where the next begins."""
    wanted = []
    for row, segment in enumerate(segments):
        following = segments[row + 1].base_offset if row + 1 < len(segments) else None
        too_early = (
            selection.first_offset is not None
            and following is not None
            and following <= selection.first_offset
        )
        too_late = (
            selection.last_offset is not None
            and segment.base_offset is not None
            and segment.base_offset > selection.last_offset
        )
        if not too_early and not too_late:
            wanted.append(segment)
    return wanted


def _narrowed(chunk: Chunk, selection: Selection) -> Chunk:
    """The batches whose header does not already rule them out."""
    headers = chunk.batches.headers
    chosen = np.ones(len(headers), bool)
    if selection.first_offset is not None:
        chosen &= last_offsets(headers) >= selection.first_offset
    if selection.last_offset is not None:
        chosen &= field(headers, "base_offset") <= selection.last_offset
    if selection.producer is not None:
        chosen &= field(headers, "producer_id") == selection.producer
    if chosen.all():
        return chunk
    narrowed = replace(
        chunk.batches, position=chunk.batches.position[chosen], headers=headers[chosen]
    )
    return replace(chunk, batches=narrowed)


def _is_past(chunk: Chunk, selection: Selection) -> bool:
    if selection.last_offset is None:
        return False
    return bool(field(chunk.batches.headers, "base_offset")[-1] > selection.last_offset)


def _outcomes_of(chunk: Chunk, outcomes: Outcomes) -> tuple[Array, Array]:
    headers = chunk.batches.headers
    outcome = np.full(len(headers), PLAIN, np.int64)
    marker = np.full(len(headers), NOWHERE, np.int64)
    attributes = field(headers, "attributes") & (TRANSACTIONAL | CONTROL)
    rows = np.flatnonzero(attributes == TRANSACTIONAL)
    if len(rows):
        producer, base = field(headers, "producer_id")[rows], field(headers, "base_offset")[rows]
        outcome[rows], marker[rows] = outcomes.of(producer, base)
    return outcome, marker
