"""A copy of a partition's directory, read as if it were a replica.

Nobody answers for it: what was aborted and what is open follows from the markers in the log itself,
so the headers are gone through once before anything is handed out. The high watermark is what the
data directory's checkpoint says, if it was copied too, else the end of the log. That is how far a
copy is compared; a call for all of it gives what lies past that as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sexton.audit.facts import OpenTransaction
from sexton.base.errors import ConfigError, CorruptLog
from sexton.client.replica import Chunk, ReplicaOffsets
from sexton.log import names
from sexton.log.checkpoints import parse_offsets
from sexton.log.inspect.paths import PartitionFiles, find
from sexton.log.inspect.reading import open_segment
from sexton.protocol.messages.fetch import AbortedTransaction
from sexton.records import Batches
from sexton.records.control import ControlType, first_control_record
from sexton.records.layout import CONTROL, TRANSACTIONAL
from sexton.records.tables import field, last_offsets, sizes


@dataclass(frozen=True, slots=True)
class _Transactions:
    aborted: tuple[tuple[int, int, int], ...]  # (first offset, marker, producer), by first offset
    open: tuple[OpenTransaction, ...]
    log_start: int
    log_end: int


class FilesReader:
    def __init__(self, directory: str, node: int) -> None:
        self._directory = directory
        self._node = node

    @cached_property
    def _files(self) -> PartitionFiles:
        found = find([self._directory])
        for error in found.wrong:
            raise error
        if len(found.partitions) != 1:
            raise ConfigError(self._directory, "is not the directory of one partition")
        return found.partitions[0]

    # ── what a broker would say ──

    async def offsets(self) -> ReplicaOffsets:
        told = self._transactions
        end = min(self._high_watermark, told.log_end)
        stable = min(self._settled_to, end)
        return ReplicaOffsets(self._node, told.log_start, stable, end, told.log_end)

    async def open_transactions(self) -> tuple[OpenTransaction, ...]:
        return self._transactions.open

    async def read(
        self, start: int, end: int | None = None, *, undecided: bool = False
    ) -> AsyncIterator[Chunk]:
        stands = await self.offsets()
        upper = stands.high_watermark if undecided else stands.last_stable
        if end is None and not undecided:
            upper = self._settled_to
        position = start
        for batches in self._batches(start):
            last = last_offsets(batches.headers)
            wanted = (last >= start) & (last < upper)
            if wanted.any():
                data = _bytes_of(batches, np.flatnonzero(wanted))
                position = int(last[wanted][-1]) + 1
                first = int(field(batches.headers, "base_offset")[wanted][0])
                yield self._chunk(data, first, position, stands)
            if end is not None and position >= end:
                return
        position = max(position, upper)  # what lies between was cleaned away
        yield self._chunk(memoryview(b""), position, position, stands)

    def _chunk(self, data: memoryview, first: int, after: int, stands: ReplicaOffsets) -> Chunk:
        aborted = tuple(
            AbortedTransaction(producer, begins)
            for begins, marker, producer in self._transactions.aborted
            if begins < after and marker >= first
        )
        return Chunk(
            data, after, stands.log_start, stands.high_watermark, stands.last_stable, aborted
        )

    # ── what the files say ──

    @property
    def _settled_to(self) -> int:
        """To its own end, whatever the checkpoint says: that may be hours older than the log.

        The log was cleaned meanwhile, and what removed a record is past that high watermark.
        """
        told = self._transactions
        return min((each.start_offset for each in told.open), default=told.log_end)

    @cached_property
    def _high_watermark(self) -> int:
        checkpoint = self._files.directory.parent / names.HIGH_WATERMARKS
        try:
            known = parse_offsets(checkpoint.read_bytes(), str(checkpoint))
        except (OSError, CorruptLog):
            return self._transactions.log_end
        for partition, offset in known.items():
            if str(partition) == self._files.name:
                return int(offset)
        return self._transactions.log_end

    @cached_property
    def _transactions(self) -> _Transactions:
        begun: dict[int, OpenTransaction] = {}
        aborted: list[tuple[int, int, int]] = []
        first = self._files.segments[0].base_offset if self._files.segments else 0
        end = first or 0
        for batches in self._batches(0):
            headers = batches.headers
            attributes = field(headers, "attributes")
            for row in np.flatnonzero(attributes & TRANSACTIONAL).tolist():
                header = headers[row]
                producer, offset = int(header["producer_id"]), int(header["base_offset"])
                if not attributes[row] & CONTROL:
                    begun.setdefault(
                        producer,
                        OpenTransaction(
                            producer,
                            int(header["producer_epoch"]),
                            offset,
                            int(header["max_timestamp"]),
                        ),
                    )
                    continue
                ended = begun.pop(producer, None)
                data = _bytes_of(batches, np.array([row]))
                marker = first_control_record(data, f"{self._files.name}, offset {offset}")
                if ended is not None and marker is not None and marker.type == ControlType.ABORT:
                    aborted.append((ended.start_offset, offset, producer))
                elif ended is not None and marker is None:
                    begun[producer] = ended  # an emptied marker says nothing
            if len(headers):
                end = int(last_offsets(headers)[-1]) + 1
        still_open = sorted(begun.values(), key=lambda each: each.start_offset)
        return _Transactions(tuple(sorted(aborted)), tuple(still_open), first or 0, end)

    def _batches(self, start: int) -> Iterator[Batches]:
        segments = self._files.segments
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            if following is not None and following <= start:
                continue
            reader = open_segment(segment, [])
            for chunk in reader.chunks():
                yield chunk.batches
            assert reader.tail is not None
            last = number + 1 == len(segments)
            if not reader.tail.is_sound and not (last and reader.tail.kind == "torn"):
                raise CorruptLog(str(segment.path), reader.tail.why or reader.tail.kind)


def _bytes_of(batches: Batches, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> memoryview:
    """Rows are a run, as offsets only rise."""
    begin = int(batches.position[rows[0]])
    end = int(batches.position[rows[-1]] + sizes(batches.headers)[rows[-1]])
    return memoryview(batches.data[begin:end].tobytes())
