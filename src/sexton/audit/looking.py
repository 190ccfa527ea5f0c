"""Batches to a `LogWindow`.

The bytes come as a read_committed consumer gets them, with the broker's list of aborted
transactions. (Past the last stable offset nothing is decided; what was read there without that
isolation is taken in as well, as neither shown nor hidden.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sexton.audit.key_entries import value_digest
from sexton.audit.settling import Aborted, Settled, Settling
from sexton.audit.window import Focus, Kind, LogWindow, Slot
from sexton.records import tables
from sexton.records.columns import Columns
from sexton.records.decoder import BadBatch, Batches, Decoder, scan
from sexton.records.layout import CONTROL, TRANSACTIONAL
from sexton.records.tables import Array

NEAR = 32  # offsets around those in question are always kept
MOST_SLOTS = 2_000  # beside markers, the key's own records and what is near
MOST_GAPS = 10_000  # past this many the rest of the window counts as one: it only makes us doubt


def window_of(
    node: int,
    first: int,
    end: int,
    chunks: Iterable[tuple[memoryview | bytes, Aborted]],
    *,
    log_start: int,
    last_stable: int,
    high_watermark: int,
    focus: Focus | None = None,
) -> LogWindow:
    """What a replica holds of [first, end), as far as it was read. Without a focus: everything."""
    look = _Look(max(first, log_start), end, last_stable, focus)
    for data, aborted in chunks:
        look.take(data, aborted)
    covered = max(look.first, min(end, max(last_stable, look.read_to)))
    return LogWindow(
        node, look.first, covered, log_start, last_stable, high_watermark,
        tuple(sorted(look.slots, key=lambda slot: (slot.offset, slot.last_offset))),
        look.all_gaps(covered), look.thinned,
    )  # fmt: skip


@dataclass(slots=True)
class _Look:
    first: int
    end: int
    last_stable: int
    focus: Focus | None
    slots: list[Slot] = field(default_factory=list)
    thinned: int = 0
    read_to: int = 0
    _gaps: list[tuple[int, int]] = field(default_factory=list)
    _held_to: int = -1  # all below it is held or in a gap
    _settling: Settling = field(default_factory=Settling)
    _decoder: Decoder = field(default_factory=Decoder)

    def __post_init__(self) -> None:
        self._held_to = self.first

    def take(self, data: memoryview | bytes, aborted: Aborted) -> None:
        batches = scan(data)
        settled = self._settling.take(batches, aborted)
        start = 0
        for columns, bad in self._decoder.parts(batches):
            stop = start + len(columns.headers_of_batches)
            self._take_part(columns, batches.slice(start, stop), settled, start, bad)
            start = stop

    def all_gaps(self, end: int) -> tuple[tuple[int, int], ...]:
        if len(self._gaps) > MOST_GAPS:
            return (*self._gaps[:MOST_GAPS], (self._gaps[MOST_GAPS][0], end))
        last = [(self._held_to, end)] if self._held_to < end else []
        return (*self._gaps, *last)

    def _take_part(
        self, columns: Columns, batches: Batches, settled: Settled, start: int, bad: list[BadBatch]
    ) -> None:
        headers = batches.headers
        bases, lasts = tables.field(headers, "base_offset"), tables.last_offsets(headers)
        if len(lasts):
            self.read_to = max(self.read_to, int(lasts[-1]) + 1)
        damaged = {each.index for each in bad}
        kinds = {each.batch - start: each.kind for each in settled.markers}
        inside = (columns.offset >= self.first) & (columns.offset < self.end)
        self._note_gaps(columns.offset[inside], [(bases[i], lasts[i]) for i in sorted(damaged)])
        empty = tables.field(headers, "records_count") == 0
        for index in sorted({*np.flatnonzero(empty).tolist(), *damaged}):
            if lasts[index] >= self.first and bases[index] < self.end:
                self._note_batch(headers, index, "damaged" if index in damaged else "empty")
        of_row = columns.batch
        rows = np.flatnonzero(inside & self._wanted(columns, of_row, bases, lasts))
        self.thinned += int(np.count_nonzero(inside)) - len(rows)
        self._note_rows(columns, rows, of_row[rows], settled.visible[start:], kinds)

    def _wanted(self, columns: Columns, of_row: Array, bases: Array, lasts: Array) -> Array:
        """Which rows are worth a slot."""
        focus = self.focus
        if focus is None:
            return np.ones(len(columns), np.bool_)
        wanted = columns.is_control
        for offset in focus.offsets:
            wanted |= np.abs(columns.offset - offset) <= NEAR
            covers = (bases <= offset) & (lasts >= offset)
            wanted |= covers[of_row]
        if focus.key is not None:
            wanted |= _has_key(columns, focus.key)
        if focus.producers and len(self.slots) < MOST_SLOTS:
            wanted |= np.isin(columns.of_batch("producer_id"), focus.producers)
        return wanted

    def _note_gaps(self, offsets: Array, damaged: list[tuple[Any, Any]]) -> None:
        """`offsets` are held; a damaged batch may hold anything, so it is no gap."""
        held = [(int(first), int(last) + 1) for first, last in damaged]
        if len(offsets):
            (breaks,) = np.nonzero(np.diff(offsets) > 1)
            starts = offsets[np.concatenate(([0], breaks + 1))].tolist()
            ends = offsets[np.concatenate((breaks, [len(offsets) - 1]))].tolist()
            held += [(start, end + 1) for start, end in zip(starts, ends, strict=True)]
        for start, end in sorted(held):
            if start > self._held_to and len(self._gaps) <= MOST_GAPS:
                self._gaps.append((self._held_to, min(start, self.end)))
            self._held_to = max(self._held_to, end)

    def _note_batch(self, headers: Any, index: int, kind: Kind) -> None:
        header = headers[index]
        base = int(header["base_offset"])
        last = base + int(header["last_offset_delta"])
        attributes = int(header["attributes"])
        slot = Slot(
            base, last, kind, None, None, int(header["max_timestamp"]),
            int(header["producer_id"]), int(header["producer_epoch"]),
            bool(attributes & TRANSACTIONAL), base, last, None, bool(attributes & CONTROL),
            int(header["partition_leader_epoch"]),
        )  # fmt: skip
        self.slots.append(slot)

    def _note_rows(
        self, columns: Columns, rows: Array, of_row: Array, visible: Array, kinds: dict[int, Any]
    ) -> None:
        for row, batch in zip(rows.tolist(), of_row.tolist(), strict=True):
            self.slots.append(self._slot(columns, row, batch, bool(visible[batch]), kinds))

    def _slot(
        self, columns: Columns, row: int, batch: int, visible: bool, kinds: dict[int, Any]
    ) -> Slot:
        header = columns.headers_of_batches[batch]
        base, attributes = int(header["base_offset"]), int(header["attributes"])
        offset, value = int(columns.offset[row]), columns.value[row]
        control = bool(attributes & CONTROL)
        if control:
            kind: Kind = kinds[batch]
        else:
            kind = "tombstone" if value is None else "value"
        return Slot(
            offset, offset, kind, None if control else columns.key[row],
            None if control else value_digest(value), int(columns.timestamp[row]),
            int(header["producer_id"]), int(header["producer_epoch"]),
            bool(attributes & TRANSACTIONAL), base, base + int(header["last_offset_delta"]),
            None if control or offset >= self.last_stable else visible, control,
            int(header["partition_leader_epoch"]),
        )  # fmt: skip


def _has_key(columns: Columns, key: bytes) -> Array:
    """Rows with this very key."""
    found: Array = columns.key.length == len(key)
    rows = np.flatnonzero(found)
    wanted = np.frombuffer(key, np.uint8)
    places = columns.key.position[rows].astype(np.int64)[:, None] + np.arange(len(key))
    found[rows] = (columns.key.data[places] == wanted).all(axis=1)
    return found
