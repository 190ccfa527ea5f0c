"""The headers of a chunk's batches as plain arrays, and what its control records say.

Every check works on one of these tables: some hundred batches at a time, and no Python per batch.
Only batches whose content could be read are in it; where one was skipped, `damage_before` says so,
and nothing that depends on what it held may be concluded across that place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from sexton.log.inspect.reading import Chunk, Part
from sexton.records.columns import Columns
from sexton.records.layout import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from sexton.records.tables import Array, field, sizes

NO_MARKER = -1
ABORT, COMMIT = 0, 1


@dataclass(frozen=True, slots=True)
class BatchTable:
    """One row a batch, in log order."""

    position: Array  # in the file
    size: Array
    base: Array  # base offset
    last: Array  # last offset
    leader_epoch: Array
    attributes: Array
    max_timestamp: Array
    producer: Array  # producer id
    epoch: Array  # producer epoch
    sequence: Array  # base sequence
    count: Array  # records
    marker: Array  # type of its control record; NO_MARKER: it has none
    coordinator_epoch: Array  # of that marker
    damage_before: Array  # bool: a batch that could not be read stood between the last row and this

    def __len__(self) -> int:
        return len(self.base)

    @property
    def is_control(self) -> Array:
        return _any_bit(self.attributes, CONTROL)

    @property
    def is_transactional(self) -> Array:
        """Data written in a transaction, not the marker that ends it."""
        return _any_bit(self.attributes, TRANSACTIONAL) & ~_any_bit(self.attributes, CONTROL)

    @property
    def has_horizon(self) -> Array:
        return _any_bit(self.attributes, DELETE_HORIZON)

    @property
    def last_sequence(self) -> Array:
        following: Array = self.sequence + (self.last - self.base)
        return following & 0x7FFFFFFF

    def rows(self, start: int, stop: int) -> BatchTable:
        return BatchTable(*(getattr(self, f.name)[start:stop] for f in fields(self)))

    def without(self, rows: Array) -> BatchTable:
        """As if the batches in these rows could not be read."""
        if not len(rows):
            return self
        sound = np.ones(len(self), bool)
        sound[rows] = False
        damage = _damage_before(sound, self.damage_before)
        kept = (getattr(self, f.name)[sound] for f in fields(self)[:-1])
        return BatchTable(*kept, damage)

    def stretches(self) -> Iterator[BatchTable]:
        """Cut before every row that something unreadable stands before."""
        if len(self):
            starts = sorted({0, *np.flatnonzero(self.damage_before).tolist()})
            for start, stop in zip(starts, [*starts[1:], len(self)], strict=True):
                yield self.rows(start, stop)


def _damage_before(sound: Array, damage: Array) -> Array:
    """For each sound row: was anything damaged since the sound row before it?"""
    seen = np.cumsum(~sound | damage)
    return np.diff(seen[sound], prepend=0) > 0


def ends_damaged(table: BatchTable, unreadable: Array) -> bool:
    """Does one of the batches at the positions `unreadable`, in order, come after all rows?"""
    return bool(len(unreadable) and (not len(table) or unreadable[-1] > table.position[-1]))


def _any_bit(attributes: Array, mask: int) -> Array:
    chosen: Array = (attributes & mask).astype(bool)
    return chosen


def table_of(chunk: Chunk, parts: list[tuple[int, Array, Array, Array]], bad: Array) -> BatchTable:
    """The table of a chunk: `parts` as `controls_in` found them, `bad` the batches to leave out."""
    headers = chunk.batches.headers
    marker = np.full(len(headers), NO_MARKER, np.int64)
    coordinator = np.full(len(headers), -1, np.int64)
    for first, batch, kind, epoch in parts:
        marker[first + batch] = kind
        coordinator[first + batch] = epoch
    sound = np.ones(len(headers), bool)
    sound[bad] = False
    base = field(headers, "base_offset")
    columns = (
        chunk.file_position,
        sizes(headers),
        base,
        base + field(headers, "last_offset_delta"),
        field(headers, "partition_leader_epoch"),
        field(headers, "attributes"),
        field(headers, "max_timestamp"),
        field(headers, "producer_id"),
        field(headers, "producer_epoch"),
        field(headers, "base_sequence").astype(np.int64),
        field(headers, "records_count").astype(np.int64),
        marker,
        coordinator,
    )
    kept = (column[sound] for column in columns)
    return BatchTable(*kept, _damage_before(sound, np.zeros(len(sound), bool)))


def controls_in(part: Part) -> tuple[int, Array, Array, Array]:
    """(the part's first batch, batch, type, coordinator epoch) of the first control record a batch.

    A control record whose key is too short to name a type counts as none.
    """
    return part.first, *control_rows(part.columns)


def control_rows(columns: Columns) -> tuple[Array, Array, Array]:
    """(batch, type, coordinator epoch) for each control batch that has a record."""
    attributes = field(columns.headers_of_batches, "attributes")
    first_row = columns.first_row[:-1]
    batch = np.flatnonzero((attributes & CONTROL != 0) & (np.diff(columns.first_row) > 0))
    row = first_row[batch]
    named = columns.key.length[row] >= 4
    batch, row = batch[named], row[named]
    kind = _big_endian(columns.key.data, columns.key.position[row] + 2, 2)
    epoch = np.full(len(row), -1, np.int64)
    told = columns.value.length[row] >= 6
    epoch[told] = _big_endian(columns.value.data, columns.value.position[row[told]] + 2, 4)
    return batch, kind, epoch


def _big_endian(data: Array, position: Array, width: int) -> Array:
    """Signed integers of `width` bytes, one at each position."""
    value = np.zeros(len(position), np.int64)
    for byte in range(width):
        value = value << 8 | data[position + byte]
    sign = 1 << (8 * width - 1)
    return (value ^ sign) - sign
