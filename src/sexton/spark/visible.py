"""Which batches does a consumer show, and how did the transaction of each end?

Below the last stable offset everything is decided, and the broker says which transactions were
aborted: whatever else is transactional was committed. Above it only a marker further on can tell;
those are looked up in `TailMarkers`, and a transaction that has none is open.

    0 ─────────── decided: aborted list ─────────── LSO ── markers ahead ── high watermark
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from sexton.log.inspect.selection import PLAIN
from sexton.log.inspect.table import ABORT, COMMIT, control_rows
from sexton.log.inspect.transactions import OPEN
from sexton.records.columns import Columns
from sexton.records.layout import CONTROL, TRANSACTIONAL
from sexton.records.tables import Array, field, last_offsets


class Decided:
    """Outcomes of the batches of one chunk, part by part in order, from its aborted list."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = list(aborted)  # (first offset, producer)
        heapq.heapify(self._ahead)
        self._aborting: dict[int, None] = {}

    def of(self, columns: Columns) -> Array:
        """For each batch COMMIT or ABORT, or PLAIN: no data of a transaction."""
        headers = columns.headers_of_batches
        attributes = field(headers, "attributes")
        data = (attributes & (TRANSACTIONAL | CONTROL)) == TRANSACTIONAL
        outcome = np.where(data, COMMIT, PLAIN)
        if self._ahead or self._aborting:
            self._mark_aborted(columns, data, outcome)
        return outcome

    def _mark_aborted(self, columns: Columns, data: Array, outcome: Array) -> None:
        headers = columns.headers_of_batches
        batch, kind, _epoch = control_rows(columns)
        ends = set(batch[kind == ABORT].tolist())
        producers, last = field(headers, "producer_id").tolist(), last_offsets(headers).tolist()
        for row, producer in enumerate(producers):
            while self._ahead and self._ahead[0][0] <= last[row]:
                self._aborting[heapq.heappop(self._ahead)[1]] = None
            if row in ends:
                self._aborting.pop(producer, None)
            elif data[row] and producer in self._aborting:
                outcome[row] = ABORT


class TailMarkers:
    """The markers above the last stable offset, gathered by a first look at that part."""

    def __init__(self) -> None:
        self._markers: dict[int, list[tuple[int, int]]] = {}  # by producer, in log order

    def note(self, columns: Columns) -> None:
        headers = columns.headers_of_batches
        batch, kind, _epoch = control_rows(columns)
        offset, producer = (
            field(headers, "base_offset")[batch],
            field(headers, "producer_id")[batch],
        )
        for who, at, what in zip(producer.tolist(), offset.tolist(), kind.tolist(), strict=True):
            if what in (COMMIT, ABORT):
                self._markers.setdefault(who, []).append((at, what))

    def of(self, columns: Columns) -> Array:
        """For each batch COMMIT, ABORT or OPEN, or PLAIN."""
        headers = columns.headers_of_batches
        attributes = field(headers, "attributes")
        outcome = np.full(len(headers), PLAIN)
        base, producer = field(headers, "base_offset"), field(headers, "producer_id")
        data = (attributes & (TRANSACTIONAL | CONTROL)) == TRANSACTIONAL
        for row in np.flatnonzero(data).tolist():
            markers = self._markers.get(int(producer[row]), [])
            found = bisect_right(markers, (int(base[row]), COMMIT))
            outcome[row] = markers[found][1] if found < len(markers) else OPEN
        return outcome


def shown_rows(
    columns: Columns, start: int, end: int, hidden: Array | None, *, with_control: bool
) -> Array:
    """Rows in [start, end) of batches that are not hidden; control records only on request."""
    offset = columns.offset
    chosen = (offset >= start) & (offset < end)
    out = np.zeros(len(columns.headers_of_batches), bool) if hidden is None else hidden.copy()
    if not with_control:
        out |= (field(columns.headers_of_batches, "attributes") & CONTROL) != 0
    if out.any():
        chosen &= ~np.repeat(out, np.diff(columns.first_row))
    return np.flatnonzero(chosen)
