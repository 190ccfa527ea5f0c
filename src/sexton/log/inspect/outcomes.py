"""Will a read_committed consumer see this record?

That is for the next marker of its producer to say, which comes later in the log. So somebody reads
ahead: headers, and the content of control batches only, as far as it takes to find the markers of
the records at hand. Nothing is read ahead for a log without transactions, and an open transaction
makes it read to the end once.

    records  ──▶│ … 7:data 7:data 9:data … │
    read ahead  └──────────────────────────┴─▶ 9:COMMIT … 7:ABORT ─▶ (enough for now)
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from sexton.log.inspect.paths import SegmentFile
from sexton.log.inspect.reading import SegmentReader, open_segment
from sexton.log.inspect.table import ABORT, COMMIT, control_rows
from sexton.log.inspect.transactions import NOWHERE, OPEN
from sexton.records import Batches, Decoder
from sexton.records.layout import CONTROL
from sexton.records.tables import Array, field

_NONE: tuple[array[int], array[int]] = array("q"), array("b")
NAMES = {COMMIT: "committed", ABORT: "aborted", OPEN: "open"}


class Outcomes:
    """The markers of a log, read as far as somebody has asked."""

    def __init__(self, segments: Sequence[SegmentFile]) -> None:
        self._ahead = self._read(segments)
        self._markers: dict[int, tuple[array[int], array[int]]] = {}  # offsets and types, in order

    def of(self, producer: Array, base: Array) -> tuple[Array, Array]:
        """(outcome, offset of the marker or NOWHERE) of transactional batches, in log order."""
        pairs = list(zip(producer.tolist(), base.tolist(), strict=True))
        self._need(pairs)
        found = [self._next(who, offset) for who, offset in pairs]
        self._forget(pairs)
        outcome = np.array([kind for _, kind in found], np.int64)
        return outcome, np.array([offset for offset, _ in found], np.int64)

    def _next(self, producer: int, offset: int) -> tuple[int, int]:
        offsets, kinds = self._markers.get(producer, _NONE)
        row = bisect_right(offsets, offset)
        return (offsets[row], kinds[row]) if row < len(offsets) else (NOWHERE, OPEN)

    def _need(self, pairs: list[tuple[int, int]]) -> None:
        newest = dict(pairs)  # of each producer: what answers this one answers the ones before
        unanswered = {who for who, offset in newest.items() if self._next(who, offset)[0] < 0}
        if not unanswered:
            return
        for producers in self._ahead:  # goes on where it stopped the last time
            for who in unanswered.intersection(producers):
                if self._next(who, newest[who])[0] >= 0:
                    unanswered.discard(who)
            if not unanswered:
                return

    def _forget(self, pairs: list[tuple[int, int]]) -> None:
        """Markers before what is asked for now will not be asked for again."""
        for who, offset in dict(reversed(pairs)).items():
            offsets, kinds = self._markers.get(who, _NONE)
            row = bisect_right(offsets, offset)
            del offsets[:row], kinds[:row]

    def _read(self, segments: Sequence[SegmentFile]) -> Iterator[list[int]]:
        """Notes the markers chunk by chunk; yields the producers that had some."""
        decoder = Decoder()
        buffers: list[Array] = []
        for segment in segments:
            try:
                reader: SegmentReader = open_segment(segment, buffers)
                for chunk in reader.chunks():
                    yield self._note(chunk.batches, decoder, str(segment.path))
                    buffers.append(chunk.buffer)
            except OSError:
                continue  # whoever reads the records will say so

    def _note(self, batches: Batches, decoder: Decoder, where: str) -> list[int]:
        control = np.flatnonzero(field(batches.headers, "attributes") & CONTROL)
        if not len(control):
            return []
        position, headers = batches.position[control], batches.headers[control]
        producers: list[int] = []
        chosen = replace(batches, position=position, headers=headers)
        for columns, _bad in decoder.parts(chosen, where):
            batch, kinds, _epoch = control_rows(columns)
            offset = field(columns.headers_of_batches, "base_offset")[batch]
            producer = field(columns.headers_of_batches, "producer_id")[batch]
            ends = ((kinds == COMMIT) | (kinds == ABORT)) & (producer >= 0)
            rows = zip(producer[ends], offset[ends], kinds[ends], strict=True)
            for who, at, kind in ((int(w), int(a), int(k)) for w, a, k in rows):
                offsets, types = self._markers.setdefault(who, (array("q"), array("b")))
                offsets.append(at)
                types.append(kind)
                producers.append(who)
        return producers
