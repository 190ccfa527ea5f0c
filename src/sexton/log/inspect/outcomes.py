"""Will a read_committed consumer see this record?

That is for the next marker of its producer to say, which comes later in the log. So somebody reads
ahead: headers, and the content of control batches only, as far as it takes to find the markers of
the records at hand. Nothing is read ahead for a log without transactions, and an open transaction
makes it read to the end once.

    records  ──▶│ … 7:data 7:data 9:data … │
    read ahead  └──────────────────────────┴─▶ 9:COMMIT … 7:ABORT ─▶ (enough for now)

A batch that cannot be read may have been that marker. Where one stands between a record and the
next marker that can be read, the outcome is unknown.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np

from sexton.log.inspect.paths import SegmentFile
from sexton.log.inspect.reading import open_segment
from sexton.log.inspect.table import ABORT, COMMIT, control_rows
from sexton.log.inspect.transactions import NOWHERE, OPEN
from sexton.records import Batches, Columns, Decoder
from sexton.records.decoder import first_bad_crc
from sexton.records.layout import CONTROL
from sexton.records.tables import Array, field

_NONE: tuple[array[int], array[int]] = array("q"), array("b")
UNKNOWN = -3  # as an outcome: what decided it could not be read
NAMES = {COMMIT: "committed", ABORT: "aborted", OPEN: "open", UNKNOWN: "unknown"}


class Outcomes:
    """The markers of a log, read as far as somebody has asked."""

    def __init__(self, segments: Sequence[SegmentFile]) -> None:
        self._ahead = self._read(segments)
        self._markers: dict[int, tuple[array[int], array[int]]] = {}  # offsets and types, in order
        self._newest = NOWHERE  # offset of the last sound batch
        self._blind = array("q")  # after the sound batch with this offset comes an unreadable one

    def close(self) -> None:
        """Reads no further; the file ahead is open until then."""
        self._ahead.close()

    def of(self, producer: Array, base: Array) -> tuple[Array, Array]:
        """(outcome, offset of the marker or NOWHERE) of transactional batches, in log order."""
        pairs = list(zip(producer.tolist(), base.tolist(), strict=True))
        self._need(pairs)
        found = [self._outcome(who, offset) for who, offset in pairs]
        self._forget(pairs)
        outcome = np.array([kind for _, kind in found], np.int64)
        return outcome, np.array([offset for offset, _ in found], np.int64)

    def _outcome(self, producer: int, offset: int) -> tuple[int, int]:
        marker, kind = self._next(producer, offset)
        row = bisect_left(self._blind, offset)
        if row < len(self._blind) and (marker == NOWHERE or self._blind[row] < marker):
            return NOWHERE, UNKNOWN
        return marker, kind

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

    def _read(self, segments: Sequence[SegmentFile]) -> Generator[list[int]]:
        """Notes the markers chunk by chunk; yields the producers that had some."""
        decoder = Decoder()
        buffers: list[Array] = []
        for segment in segments:
            try:
                reader = open_segment(segment, buffers)
                for chunk in reader.chunks():
                    yield self._note(chunk.batches, decoder, str(segment.path))
                    buffers.append(chunk.buffer)
            except OSError:  # whoever reads the records will say so
                self._blind.append(self._newest)
                continue
            tail = reader.tail
            assert tail is not None
            if not tail.is_sound and not (tail.kind == "torn" and segment is segments[-1]):
                self._blind.append(self._newest)

    def _note(self, batches: Batches, decoder: Decoder, where: str) -> list[int]:
        """Notes the markers of a chunk; returns their producers."""
        damaged = _unreadable(batches)
        control = np.flatnonzero(field(batches.headers, "attributes") & CONTROL)
        position, headers = batches.position[control], batches.headers[control]
        chosen = replace(batches, position=position, headers=headers)
        producers: list[int] = []
        first = 0
        for columns, bad in decoder.parts(chosen, where) if len(control) else ():
            damaged.update(int(control[first + batch.index]) for batch in bad)
            first += len(columns.headers_of_batches)
            producers += self._note_markers(columns)
        self._note_damage(batches, sorted(damaged))
        return producers

    def _note_markers(self, columns: Columns) -> list[int]:
        batch, kinds, _epoch = control_rows(columns)
        offset = field(columns.headers_of_batches, "base_offset")[batch]
        producer = field(columns.headers_of_batches, "producer_id")[batch]
        ends = ((kinds == COMMIT) | (kinds == ABORT)) & (producer >= 0)
        columns_of_ends = (column[ends].tolist() for column in (producer, offset, kinds))
        producers = []
        for who, at, kind in zip(*columns_of_ends, strict=True):
            offsets, types = self._markers.setdefault(who, (array("q"), array("b")))
            offsets.append(at)
            types.append(kind)
            producers.append(who)
        return producers

    def _note_damage(self, batches: Batches, damaged: list[int]) -> None:
        base = field(batches.headers, "base_offset")
        sound = np.delete(np.arange(len(base)), damaged)
        for row in damaged:
            before = sound[: np.searchsorted(sound, row)]
            self._blind.append(int(base[before[-1]]) if len(before) else self._newest)
        if len(sound):
            self._newest = int(base[sound[-1]])


def _unreadable(batches: Batches) -> set[int]:
    """The batches whose checksum is wrong; one look tells for most chunks that there are none."""
    if first_bad_crc(batches) is None:
        return set()
    rows = range(len(batches))
    return {row for row in rows if first_bad_crc(batches.slice(row, row + 1)) is not None}
