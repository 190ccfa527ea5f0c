"""Which records does a read_committed consumer show?

A broker sends everything below the last stable offset, with a list of aborted transactions: who,
and from which offset on. The consumer itself leaves out what that producer wrote from there to its
next ABORT marker. This is that rule, chunk by chunk; markers themselves are never shown.

A replica that has lost a marker shows others than one that has it: that is the point of comparing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from sexton.client.replica import Chunk, RawBatch
from sexton.records.control import ControlType, first_control_record


@dataclass(slots=True)
class CommittedBatches:
    """Goes through the chunks of one read, in order; they must come with read_committed."""

    _aborting: dict[int, None] = field(default_factory=dict)  # producers, until their marker

    def of(self, chunk: Chunk) -> Iterator[RawBatch]:
        """The batches of a chunk that a consumer would show."""
        # Every answer lists all that concerns it. What the last one said may be out of date: a
        # marker that was to come can have been cleaned away meanwhile, after its data.
        self._aborting.clear()
        ahead = [(entry.first_offset, entry.producer_id) for entry in chunk.aborted]
        heapq.heapify(ahead)
        for batch in chunk.batches():
            header = batch.header
            while ahead and ahead[0][0] <= header.last_offset:
                self._aborting[heapq.heappop(ahead)[1]] = None
            if header.is_control:
                if _aborts(batch):
                    self._aborting.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in self._aborting):
                yield batch


def _aborts(batch: RawBatch) -> bool:
    record = first_control_record(batch.data, f"marker at offset {batch.header.base_offset}")
    return record is not None and record.type == ControlType.ABORT
