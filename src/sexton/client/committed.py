"""Which records does a read_committed consumer show?

A broker sends everything below the last stable offset, with a list of aborted transactions: who,
and from which offset on. The consumer itself leaves out what that producer wrote from there to its
next ABORT marker. This is that rule, chunk by chunk; markers themselves are never shown.

A replica that has lost a marker shows others than one that has it: that is the point of comparing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from sexton.client.replica import Chunk, RawBatch
from sexton.records.control import ControlType, first_control_record


def committed_batches(chunk: Chunk) -> Iterator[RawBatch]:
    """Those of a chunk, read with read_committed, that a consumer would show.

    Each chunk by itself: every answer lists all that concerns it, and what an earlier one said may
    be out of date, since a marker that was to come can have been cleaned away after its data.
    """
    ahead = [(entry.first_offset, entry.producer_id) for entry in chunk.aborted]
    heapq.heapify(ahead)
    aborting: dict[int, None] = {}  # producers, until their marker
    for batch in chunk.batches():
        header = batch.header
        while ahead and ahead[0][0] <= header.last_offset:
            aborting[heapq.heappop(ahead)[1]] = None
        if header.is_control:
            if _aborts(batch):
                aborting.pop(header.producer_id, None)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield batch


# A name that the reference promises to keep.
class CommittedBatches:
    """What a read_committed consumer shows, of any chunk: each is judged by itself."""

    def of(self, chunk: Chunk) -> Iterator[RawBatch]:
        """The batches of a chunk, read with read_committed, that a consumer would show."""
        return committed_batches(chunk)


def _aborts(batch: RawBatch) -> bool:
    record = first_control_record(batch.data, f"marker at offset {batch.header.base_offset}")
    return record is not None and record.type == ControlType.ABORT
