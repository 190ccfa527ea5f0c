"""Memory that a cleaner works in, one chunk and one pass after the other.

Fresh memory costs more than what is done in it: the operating system has to find and clear it page
by page. Whoever cleans again and again keeps one of these and passes it to every pass; Kafka's
cleaner, too, reserves its buffers for as long as it lives.
"""

from __future__ import annotations

import mmap
from typing import NamedTuple

import numpy as np

from sexton.records.inflating import Inflater
from sexton.records.native import address
from sexton.records.tables import Array

MOST_FULL = 0.8  # of the set's slots: 10 bytes a key when it is as full as it gets


class Room(NamedTuple):
    """Some memory, and where it is; it stays there while the array is alive."""

    array: Array
    address: int

    @classmethod
    def of(cls, size: int) -> Room:
        """Bytes from the start of a page on.

        malloc would put them 16 bytes after it, to where some CPUs (AMD's Zen 3) copy a file at a
        quarter of the speed.
        """
        memory = np.empty(size + mmap.PAGESIZE, np.uint8)
        array = memory[-address(memory) % mmap.PAGESIZE :][:size]
        return cls(array, address(array))


class Workshop:
    """One pass at a time."""

    def __init__(self) -> None:
        self.inflater = Inflater()
        self.blocks: list[Room] = []  # of a pile
        self._rooms: dict[str, Room] = {}
        self._table = Room(np.empty(0, np.uint64), 0)

    def room(self, name: str, size: int) -> Room:
        """At least `size` bytes, with whatever was in them before."""
        found = self._rooms.get(name)
        if found is None or len(found.array) < size:
            found = self._rooms[name] = Room.of(max(size + size // 4, 1 << 10))
        return found

    def words(self, name: str, count: int) -> Room:
        """At least so many int64, with whatever was in them before."""
        found = self._rooms.get(name)
        if found is None or len(found.array) < count:
            raw = Room.of(8 * max(count + count // 4, 1 << 7))
            found = self._rooms[name] = Room(raw.array.view(np.int64), raw.address)
        return found

    def key_set(self, slots: int, part: int = 0, parts: int = 1, seed: int = 0) -> KeySet:
        """An empty set, in the place of any that was there before."""
        if len(self._table.array) < slots:
            self._table = Room(np.zeros(slots, np.uint64), 0)
            self._table = self._table._replace(address=address(self._table.array))
        else:
            self._table.array[:slots] = 0
        return KeySet(self._table, slots, part, parts, seed)


class KeySet:
    """The keys met so far, of one part of all keys (decision 0005)."""

    __slots__ = ("most", "part", "parts", "seed", "slots", "table", "used")

    def __init__(self, table: Room, slots: int, part: int, parts: int, seed: int) -> None:
        self.table, self.slots = table, slots
        self.used, self.most = 0, int(slots * MOST_FULL)
        self.part, self.parts, self.seed = part, parts, seed
