"""What a log knows of its producers, worked out again from its batches.

A snapshot saves most of the reading. One that cannot be read, because a crash tore it, is removed:
an earlier one and more batches do as well, and in the end the batches alone. One of before the
log's first batch is of no use: between the two a marker may have gone, and the transaction that it
ended would count as open for ever.
"""

from __future__ import annotations

from collections.abc import Callable

from sexton.base.errors import CorruptLog
from sexton.log.disk import Disk
from sexton.log.names import LOG, SNAPSHOT, parse_segment_file, segment_file
from sexton.log.producers import Producers
from sexton.log.segment import Segment
from sexton.log.snapshots import parse_snapshot
from sexton.records.control import first_control_record


def rebuild_producers(
    disk: Disk, directory: str, segments: list[Segment], high_watermark: int
) -> Producers:
    """The producer state at the end of the log: a snapshot, and every batch that came after it.

    The snapshot must not be later than the high watermark. A transaction whose marker is above that
    counts as open, and a snapshot no longer knows where a transaction that has ended began.
    """
    start = segments[0].base_offset  # what was below was replicated, or it would not be gone
    at_most = max(min(high_watermark, segments[-1].end_offset), start)
    producers = replayed(load_producers(disk, directory, start, at_most), segments)
    producers.high_watermark_reached(high_watermark)
    return producers


def load_producers(disk: Disk, directory: str, at_least: int, at_most: int) -> Producers:
    """The state of the latest usable snapshot between two offsets, both included."""
    for offset in sorted(_snapshots(disk, directory), reverse=True):
        path = f"{directory}/{segment_file(offset, SNAPSHOT)}"
        if not at_least <= offset <= at_most:
            continue
        try:
            return Producers.from_snapshot(parse_snapshot(disk.read(path), path), offset)
        except CorruptLog:
            disk.remove(path)  # torn by a crash; an earlier one and more replay do as well
    return Producers()


def remove_snapshots(
    disk: Disk, directory: str, keeps: Callable[[int], bool], *, durably: bool = True
) -> None:
    """All but some; where batches change, one that came back would tell of others."""
    gone = [offset for offset in _snapshots(disk, directory) if not keeps(offset)]
    for offset in gone:
        disk.remove(f"{directory}/{segment_file(offset, SNAPSHOT)}")
    if gone and durably:
        disk.sync_directory(directory)


def _snapshots(disk: Disk, directory: str) -> list[int]:
    parsed = map(parse_segment_file, disk.names(directory))
    return [found[0] for found in parsed if found and found[1] == SNAPSHOT]


def replayed(producers: Producers, segments: list[Segment]) -> Producers:
    """The state after the batches of these segments that it does not know yet."""
    for segment in segments:
        if segment.end_offset <= producers.end_offset:
            continue
        found = segment.find(producers.end_offset)
        for position, header in segment.headers(found[0]) if found else ():
            marker = None
            if header.is_control:
                batch = segment.log.read_at(position, header.size)
                marker = first_control_record(batch, segment.path(LOG))
            producers.apply(header, marker)
    if segments:
        producers.end_offset = max(producers.end_offset, segments[-1].end_offset)
    return producers
