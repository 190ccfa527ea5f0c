"""Batches that grow: rows go to the open batch of their partition, and full ones come out.

    batches = OpenBatches()
    orders = batches.add_topic(12, most_bytes=512 << 10)
    for rows in ...:
        for full in batches.append(rows): ...      # topic, partition, a whole record batch
    for full in batches.rest(): ...

A batch is as large as it may be, however the rows come in. Memory grows with what the partitions
hold, not with their number; when all of them together have `HELD_BYTES`, all are given out as they
are. Nothing here is by chance: the same rows, in pieces of whatever size, give the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sexton.records import append_kernels as kernels
from sexton.records.kernels import GUARD, HEADER_BYTES
from sexton.records.native import address
from sexton.records.tables import Array

HELD_BYTES = 64 << 20
FIRST_BYTES = 16 << 10  # of a batch that has just been opened
_PLACE, _ROOM, _USED, _COUNT, _BASE_TIME, _MOST_TIME = range(6)  # of a slot
_FIRST_SLOT, _HOW_MANY, _TURN, _LOOSE, _PER_TURN = range(5)  # of a topic


class NoPartition(ValueError):
    """A row asks for a partition that its topic does not have."""

    def __init__(self, topic: int, partition: int, partitions: int) -> None:
        super().__init__(f"a row asks for partition {partition} of {partitions}")
        self.topic, self.partition, self.partitions = topic, partition, partitions


@dataclass(frozen=True, slots=True)
class Strings:
    """A column of byte strings in Arrow's layout; row i is data[ends[i]:ends[i + 1]]."""

    data: Array  # uint8
    ends: Array  # int32
    valid: Array | None = None  # uint8, a bit for each row; None: none is null
    first: int = 0  # the bit of the first row

    def numbers(self) -> list[int]:
        valid = 0 if self.valid is None else address(self.valid)
        return [address(self.data), len(self.data), address(self.ends), valid, self.first]

    @classmethod
    def nulls(cls, rows: int) -> Strings:
        nothing = np.zeros(1, np.uint8)
        return cls(nothing, np.zeros(rows + 1, np.int32), np.zeros(rows // 8 + 1, np.uint8))


_NO_STRINGS = Strings.nulls(0)


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows that were never in a log; arrays are as long as there are rows."""

    key: Strings
    value: Strings
    now_ms: int  # the timestamp of all, if there is no column of them
    timestamp: Array | None = None  # int64, milliseconds
    partition: Array | None = None  # int32; -1: the key decides
    topic: Array | None = None  # int32, numbers that `add_topic` gave; None: all are for the first
    header_first: Array | None = None  # int32, rows + 1: where in the columns of headers
    header_key: Strings = _NO_STRINGS  # none of them null
    header_value: Strings = _NO_STRINGS

    def __len__(self) -> int:
        return len(self.value.ends) - 1

    def numbers(self) -> Array:
        """As `append` takes them."""
        told: list[int] = []
        for column in (self.key, self.value, self.header_key, self.header_value):
            told += column.numbers()
        told.append(0 if self.header_first is None else address(self.header_first))
        told.append(0 if self.timestamp is None else address(self.timestamp))
        told.append(self.now_ms)
        told.append(0 if self.partition is None else address(self.partition))
        told.append(0 if self.topic is None else address(self.topic))
        return np.array(told, np.int64)


class Full(NamedTuple):
    topic: int
    partition: int
    batch: memoryview  # whole, uncompressed, without a producer; valid until the next is asked for


class OpenBatches:
    def __init__(self, attributes: int = 0) -> None:
        self._attributes = attributes
        self._topics = np.zeros((0, 5), np.int64)
        self._slots = np.zeros((0, 6), np.int64)
        self._most: list[int] = []  # bytes of a batch, by slot
        self._memory: list[Array | None] = []
        self._held = 0

    def add_topic(
        self, partitions: int, most_bytes: int, *, turn: int = 0, per_turn: int | None = None
    ) -> int:
        """Its number. Rows without a key begin with the partition `turn` and go on to the next
        after `per_turn` bytes (as much as a batch has, if it is not given)."""
        assert partitions > 0 and most_bytes > 0
        topic = [len(self._slots), partitions, turn % partitions, 0, per_turn or most_bytes]
        self._topics = np.concatenate([self._topics, np.array([topic], np.int64)])
        slots = np.zeros((partitions, 6), np.int64)
        slots[:, _USED] = HEADER_BYTES
        self._slots = np.concatenate([self._slots, slots])
        self._most += [most_bytes] * partitions
        self._memory += [None] * partitions
        return len(self._topics) - 1

    def append(self, rows: NewRows) -> Iterator[Full]:
        """Takes all rows; gives out the batches that are full."""
        columns, answer = rows.numbers(), np.zeros(3, np.int64)
        row, count = 0, len(rows)
        while True:
            row = kernels.append(
                address(columns), row, count, address(self._topics), address(self._slots),
                address(answer),
            )  # fmt: skip
            why, where, how_much = answer.tolist()
            if why == kernels.DONE:
                return
            if why == kernels.NO_PARTITION:
                raise NoPartition(where, how_much, int(self._topics[where, _HOW_MANY]))
            if why == kernels.OUTSIDE:
                raise ValueError(f"row {row}: its key, value or headers end outside their column")
            yield from self._make_room(where, how_much)

    def rest(self) -> Iterator[Full]:
        """What is open still, partition by partition."""
        for slot in np.flatnonzero(self._slots[:, _COUNT]).tolist():
            yield self._close(slot)

    # ── room ──

    def _make_room(self, slot: int, wanted: int) -> Iterator[Full]:
        """For a record of so many bytes; a batch of one record may be larger than the rest."""
        _place, room, used, count, *_times = self._slots[slot].tolist()
        most = self._most[slot]
        if count and used + wanted > most:
            yield self._close(slot)
            return
        size = max(used + wanted, min(max(2 * room, FIRST_BYTES), most))
        if self._held + size - room > HELD_BYTES and self._slots[:, _COUNT].any():
            yield from self.rest()
            self._forget_all()
            return
        self._grow(slot, size)

    def _grow(self, slot: int, size: int) -> None:
        old, used = self._memory[slot], int(self._slots[slot, _USED])
        memory = np.empty(size + GUARD, np.uint8)
        if old is not None:
            memory[:used] = old[:used]
        self._held += size - int(self._slots[slot, _ROOM])
        self._memory[slot] = memory
        self._slots[slot, _PLACE], self._slots[slot, _ROOM] = address(memory), size

    def _close(self, slot: int) -> Full:
        topic = int(np.searchsorted(self._topics[:, _FIRST_SLOT], slot, side="right")) - 1
        memory = self._memory[slot]
        assert memory is not None
        size = kernels.close(address(self._slots[slot]), self._attributes)
        if self._slots[slot, _ROOM] > self._most[slot]:
            self._forget(slot)
        return Full(topic, slot - int(self._topics[topic, _FIRST_SLOT]), memory.data[:size])

    def _forget(self, slot: int) -> None:
        self._held -= int(self._slots[slot, _ROOM])
        self._memory[slot] = None
        self._slots[slot, _PLACE] = self._slots[slot, _ROOM] = 0

    def _forget_all(self) -> None:
        for slot in np.flatnonzero(self._slots[:, _ROOM]).tolist():
            self._forget(slot)
