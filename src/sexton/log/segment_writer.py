"""A whole segment at once: its log from large parts, its indexes from the headers in them.

What `Segment.append` does for a batch at a time, as a broker needs it, done for a million of them,
as a cleaner needs it. The files are the same.
"""

from __future__ import annotations

import numpy as np

from sexton.log import index_kernels as kernels
from sexton.log.disk import Disk
from sexton.log.indexes import AbortedTransaction, TimeEntry
from sexton.log.segment import Segment
from sexton.records.decoder import scan
from sexton.records.native import address
from sexton.records.tables import Array, HeaderTable, last_offsets


class SegmentWriter:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        created_ms: int,
        interval: int,
        tail: str,
    ) -> None:
        self.segment = Segment.create(disk, directory, base_offset, created_ms, tail)
        self._interval = interval
        self._state = np.zeros(kernels.STATE_WORDS, np.int64)
        self._state[kernels.MAX_TIMESTAMP] = kernels.NO_TIMESTAMP
        self._offsets: list[bytes] = []
        self._times: list[bytes] = []

    def append(self, part: Array) -> HeaderTable:
        """Appends whole batches; returns their headers."""
        segment = self.segment
        batches = scan(part)
        assert batches.fault is None and len(batches), "only what was read and judged is written"
        offsets, times = np.empty(8 * len(batches), np.uint8), np.empty(12 * len(batches), np.uint8)
        headers = np.ascontiguousarray(batches.headers)
        entries, time_entries = kernels.index_batches(
            address(headers), len(headers), segment.size, segment.base_offset,
            self._interval, address(self._state), address(offsets), address(times),
        )  # fmt: skip
        self._offsets.append(offsets[: 8 * entries].tobytes())
        self._times.append(times[: 12 * time_entries].tobytes())
        if segment.first_timestamp is None:
            segment.first_timestamp = int(headers["max_timestamp"][0])
        segment.end_offset = int(last_offsets(headers[-1:])[0]) + 1
        segment.log.append(part.data)
        return headers

    def finish(self, aborted: list[AbortedTransaction]) -> Segment:
        """The segment, sealed and synced."""
        newest, at = self._state[[kernels.MAX_TIMESTAMP, kernels.MAX_OFFSET]].tolist()
        self.segment.adopt_indexes(
            b"".join(self._offsets), b"".join(self._times), aborted, TimeEntry(newest, at)
        )
        self.segment.bytes_since_index = int(self._state[kernels.SINCE_ENTRY])
        self.segment.seal()
        self.segment.sync()
        self.segment.close_indexes()
        return self.segment
