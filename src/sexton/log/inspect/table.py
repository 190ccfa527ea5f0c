"""The headers of a chunk's batches as plain arrays, and what its control records say.

Every check works on one of these tables: some hundred batches at a time, and no Python per batch.
Only batches whose content could be read are in it; where one was skipped, `damage_before` says so,
and nothing that depends on what it held may be concluded across that place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from sexton.log.inspect.reading import Chunk, Part
from sexton.records import BadBatch, Columns
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
        # Of each row that stays: was anything damaged since the one before it?
        damages = np.cumsum(~sound | self.damage_before)
        kept = BatchTable(*(getattr(self, f.name)[sound] for f in fields(self)))
        return replace(kept, damage_before=np.diff(damages[sound], prepend=0) > 0)

    def stretches(self) -> Iterator[BatchTable]:
        """Cut before every row that something unreadable stands before."""
        if len(self):
            starts = sorted({0, *np.flatnonzero(self.damage_before).tolist()})
            for start, stop in zip(starts, [*starts[1:], len(self)], strict=True):
                yield self.rows(start, stop)


@dataclass(slots=True)
class Damage:
    """Takes note of damage at the end of a table or segment, for the table that comes next."""

    pending: bool = False

    def carry(self, table: BatchTable, unreadable: Array) -> None:
        """`unreadable`: the positions, in order, of what could not be read around the rows."""
        if len(table):
            table.damage_before[0] |= self.pending
            self.pending = False
        after = table.position[-1] if len(table) else -1
        self.pending |= bool(len(unreadable) and unreadable[-1] > after)


def _any_bit(attributes: Array, mask: int) -> Array:
    chosen: Array = (attributes & mask).astype(bool)
    return chosen


class TableBuilder:
    """Gathers what decoding a chunk, part by part, adds to what its headers say."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._marker = np.full(len(chunk.batches), NO_MARKER, np.int64)
        self._coordinator = np.full(len(chunk.batches), -1, np.int64)
        self._sound = np.ones(len(chunk.batches), bool)
        self.bad: list[tuple[int, BadBatch]] = []  # with its position in the file

    def add(self, part: Part) -> None:
        batch, kind, epoch = control_rows(part.columns)
        self._marker[part.first + batch] = kind
        self._coordinator[part.first + batch] = epoch
        for bad in part.bad:
            row = part.first + bad.index
            self._sound[row] = False
            self.bad.append((int(self._chunk.file_position[row]), bad))

    def table(self) -> BatchTable:
        headers, sound = self._chunk.batches.headers, self._sound
        base = field(headers, "base_offset")
        columns = (
            self._chunk.file_position,
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
            self._marker,
            self._coordinator,
        )
        damage = np.zeros(len(sound), bool)
        return BatchTable(*columns, damage).without(np.flatnonzero(~sound))


def control_rows(columns: Columns) -> tuple[Array, Array, Array]:
    """(batch, type, coordinator epoch) of the first record of each control batch that has one.

    A control record whose key is too short to name a type counts as none.
    """
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
