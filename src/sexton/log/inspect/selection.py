"""Which records, decided on columns before any of them becomes an object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sexton.log.inspect.outcomes import UNKNOWN
from sexton.log.inspect.table import ABORT, COMMIT
from sexton.log.inspect.transactions import OPEN
from sexton.records import Columns, Spans
from sexton.records.tables import Array, HeaderTable, field, last_offsets

PLAIN = -2  # the outcome of what was never in a transaction
OUTCOMES = {
    "committed": COMMIT, "aborted": ABORT, "open": OPEN, "unknown": UNKNOWN, "plain": PLAIN
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Selection:
    """All conditions must hold; None asks for nothing. Bounds include what they name."""

    first_offset: int | None = None
    last_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    key: bytes | None = None
    producer: int | None = None
    outcome: int | None = None

    def records(self, columns: Columns, outcome: Array) -> Array:
        """Row numbers; `outcome` is that of each batch."""
        chosen = self._common(columns.offset, columns.offset, columns.timestamp)
        if self.producer is not None:
            chosen &= columns.of_batch("producer_id") == self.producer
        if self.outcome is not None:
            chosen &= outcome[columns.batch] == self.outcome
            chosen &= ~columns.is_control
        rows = np.flatnonzero(chosen)
        if self.key is not None:
            rows = rows[~columns.is_control[rows]]
            rows = rows_equal(columns.key, rows, self.key)
        return rows

    def batches(self, headers: HeaderTable, outcome: Array) -> Array:
        """Row numbers of batches that may hold what is asked for; keys are not looked at."""
        first, last = field(headers, "base_offset"), last_offsets(headers)
        chosen = self._common(first, last, field(headers, "max_timestamp"))
        if self.producer is not None:
            chosen &= field(headers, "producer_id") == self.producer
        if self.outcome is not None:
            chosen &= outcome == self.outcome
        return np.flatnonzero(chosen)

    def _common(self, first: Array, last: Array, time: Array) -> Array:
        chosen = np.ones(len(first), bool)
        if self.first_offset is not None:
            chosen &= last >= self.first_offset
        if self.last_offset is not None:
            chosen &= first <= self.last_offset
        if self.since_ms is not None:
            chosen &= time >= self.since_ms
        if self.until_ms is not None:
            chosen &= time <= self.until_ms
        return chosen


def rows_equal(spans: Spans, rows: Array, wanted: bytes) -> Array:
    """Those of `rows` whose bytes are exactly `wanted`; each byte is compared for fewer rows."""
    rows = rows[spans.length[rows] == len(wanted)]
    for place, byte in enumerate(wanted):
        if not len(rows):
            break
        rows = rows[spans.data[spans.position[rows] + place] == byte]
    return rows
