"""What a log knows of its producers, worked out again from its batches.

A snapshot saves most of the reading. One that cannot be read, because a crash tore it, is removed:
an earlier one and more batches do as well, and in the end the batches alone.
"""

from __future__ import annotations

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
    at_most = min(high_watermark, segments[-1].end_offset)
    producers = replayed(load_producers(disk, directory, at_most), segments)
    producers.high_watermark_reached(high_watermark)
    return producers


def load_producers(disk: Disk, directory: str, at_most: int) -> Producers:
    """The state of the latest usable snapshot that is not later than an offset."""
    offsets = [
        p[0] for n in disk.names(directory) if (p := parse_segment_file(n)) and p[1] == SNAPSHOT
    ]
    for offset in sorted(offsets, reverse=True):
        path = f"{directory}/{segment_file(offset, SNAPSHOT)}"
        if offset > at_most:
            continue
        try:
            return Producers.from_snapshot(parse_snapshot(disk.read(path), path), offset)
        except CorruptLog:
            disk.remove(path)  # torn by a crash; an earlier one and more replay do as well
    return Producers()


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
