"""A memory disk with a fuse: after so many operations the power goes, in the middle of whatever.

What comes out is not an error that code could catch and tidy up after, but the end of the process.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random

from sexton.log.memory_disk import MemoryDisk, MemoryFile


class PowerCut(BaseException):
    """The node that was running is gone; what its disk holds is for `crashed` to say."""


class FusedDisk:
    def __init__(self, memory: MemoryDisk | None = None) -> None:
        self.memory = memory or MemoryDisk()
        self.fuse: int | None = None  # writing operations left; None: no cut is planned
        self.names = self.memory.names
        self.exists = self.memory.exists
        self.read = self.memory.read
        self.make_directory = self.memory.make_directory
        self.write_back = self.memory.write_back
        self.room = self.memory.room

    def burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.fuse = None
                raise PowerCut

    def open(self, path: str) -> FusedFile:
        return FusedFile(self.memory.open(path), self.burn)

    def rename(self, old: str, new: str) -> None:
        self.burn()
        self.memory.rename(old, new)

    def remove(self, path: str) -> None:
        self.burn()
        self.memory.remove(path)

    def sync_directory(self, path: str) -> None:
        self.burn()
        self.memory.sync_directory(path)

    # ── what the world does ──

    def crashed(self, random: Random) -> FusedDisk:
        """What is left after the power was cut."""
        return FusedDisk(self.memory.crash(random))

    def image(self) -> FusedDisk:
        """A copy as it is now."""
        return FusedDisk(copy.deepcopy(self.memory))


class FusedFile:
    """What only reads cannot be cut in half, and goes straight to the file."""

    __slots__ = ("_burn", "_file", "close", "fileno", "read_at", "read_into")

    def __init__(self, file: MemoryFile, burn: Callable[[], None]) -> None:
        self._file = file
        self._burn = burn
        self.read_at = file.read_at
        self.read_into = file.read_into
        self.close = file.close
        self.fileno = file.fileno

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._burn()
        self._file.append(data)

    def truncate(self, size: int) -> None:
        self._burn()
        self._file.truncate(size)

    def sync(self) -> None:
        self._burn()
        self._file.sync()
