"""Parts that are made from the last to the first and wanted from the first to the last.

A pass walks backward, but a file is written forward. What it keeps of a file waits here until the
first part of that file is done: in memory, or, if that gets too much, in a file beside the log.

    pushed   d  c  b  a          parts()   a  b  c  d
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sexton.log.disk import Disk, File
from sexton.log.workshop import Room
from sexton.records.tables import Array

HELD_BYTES = 128 << 20  # in memory; as much as the set of keys may take
FIRST_BLOCK_BYTES = 64 << 10
BLOCK_BYTES = 16 << 20

_InMemory = tuple[int, int, int]  # block, start, end
_OnDisk = tuple[int, int]  # position, size


class Pile:
    """`blocks` is the memory it uses, and adds to; it may have been another pile's before."""

    def __init__(
        self, disk: Disk, spill_path: str, blocks: list[Room], held_bytes: int = HELD_BYTES
    ) -> None:
        self._disk = disk
        self._spill_path = spill_path  # of a file that nobody needs after a crash
        self._held_bytes = held_bytes
        self._blocks = blocks
        self._block = self._place = 0  # where the next part goes
        self._held: list[_InMemory] = []
        self._held_size = 0
        self._spilled: list[_OnDisk] = []
        self._file: File | None = None

    def room(self, least: int) -> Room:
        """Memory for the next part; whoever fills it tells with `push` how much of it is used."""
        while self._block < len(self._blocks):
            array, address = self._blocks[self._block]
            if len(array) - self._place >= least:
                return Room(array[self._place :], address + self._place)
            self._block, self._place = self._block + 1, 0
        grown = min(FIRST_BLOCK_BYTES << 2 * len(self._blocks), BLOCK_BYTES)
        self._blocks.append(Room.of(max(least, grown)))
        return self._blocks[-1]

    def push(self, size: int) -> None:
        """The next part is the first `size` bytes of the room that was last given."""
        if size == 0:
            return
        self._held.append((self._block, self._place, self._place + size))
        self._place += size
        self._held_size += size
        if self._held_size > self._held_bytes:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = self._disk.open(self._spill_path)
            self._file.truncate(0)
        for block, start, end in self._held:
            self._spilled.append((self._file.size, end - start))
            self._file.append(self._blocks[block].array[start:end].data)
        self._forget_held()

    def parts(self) -> Iterator[Array]:
        """All of them, last pushed first; each is valid until the pile is used again."""
        for block, start, end in reversed(self._held):
            yield self._blocks[block].array[start:end]
        for position, size in reversed(self._spilled):
            assert self._file is not None
            yield np.frombuffer(self._file.read_at(position, size), np.uint8)

    def clear(self) -> None:
        """Forgets all parts, and keeps the memory."""
        self._forget_held()
        self._spilled = []
        if self._file is not None:
            self._file.close()
            self._file = None
            self._disk.remove(self._spill_path)

    def _forget_held(self) -> None:
        self._held, self._held_size = [], 0
        self._block = self._place = 0
