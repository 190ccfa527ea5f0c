"""Is every decision of the controller still in its log? Asked before that is opened.

A log that a crash has left is cut at its first batch that is not whole: elsewhere what follows can
be copied from a leader. Of this one there is no other copy. And brokers delete the logs of topics
that the controller does not know: one bit that turned over would cost every topic that was created
after it.

A crash leaves one decision unfinished at most, the last, for each is synced before the next. So
where a whole batch follows one that is not, or the log was closed in good order, it is damage, and
the controller does not start. Nothing was changed by then, and a copy can be put back.
"""

from __future__ import annotations

from sexton.base.errors import CorruptLog
from sexton.log.disk import Disk
from sexton.log.incoming import crc_matches
from sexton.log.names import CLEAN_SHUTDOWN, LOG, parse_segment_file
from sexton.log.segment import Segment
from sexton.records.layout import HEADER_BYTES, read_header

_MAGIC_AT, _MAGIC = 16, b"\x02"
HINT = (
    "put back the controller's directory from a copy, or begin anew in an empty one; nothing was "
    "changed, and `sexton log dump` reads what is in the brokers' directories"
)


def check_whole(disk: Disk, directory: str) -> None:
    """CorruptLog if decisions were lost that somebody may have been told of."""
    parsed = [parse_segment_file(name) for name in disk.names(directory)]
    bases = sorted(found[0] for found in parsed if found and found[1] == LOG)
    for base in bases:
        may_be_torn = base == bases[-1] and not disk.exists(CLEAN_SHUTDOWN)
        segment = Segment.attach(disk, directory, base, 0)
        try:
            _check_segment(segment, may_be_torn)
        finally:
            segment.close()


def _check_segment(segment: Segment, may_be_torn: bool) -> None:
    end, reached = 0, segment.base_offset
    try:
        for position, header, batch in segment.batches():
            where = f"{segment.path(LOG)} at byte {position}"
            if not crc_matches(batch, 0, header):
                raise CorruptLog(where, "the checksum does not match")
            if header.base_offset < reached:  # which no checksum covers
                may_be_torn = False
                raise CorruptLog(where, f"offset {header.base_offset} after offset {reached - 1}")
            end, reached = position + header.size, header.next_offset
    except CorruptLog as error:
        rest = segment.log.read_at(end, segment.size - end)
        if may_be_torn and not _holds_batch(rest):
            return
        why = f"{error.why}: decisions of the controller are lost"
        raise CorruptLog(error.subject, why, HINT) from None


def _holds_batch(rest: bytes) -> bool:
    """Is there a whole batch anywhere behind the first byte?"""
    at = rest.find(_MAGIC, _MAGIC_AT + 1)
    while 0 <= at <= len(rest) - HEADER_BYTES + _MAGIC_AT:
        start = at - _MAGIC_AT
        try:
            header = read_header(rest, start, "")
            if header.size <= len(rest) - start and crc_matches(rest, start, header):
                return True
        except CorruptLog:
            pass
        at = rest.find(_MAGIC, at + 1)
    return False
