"""A disk that can fail on demand, so that what survives a crash is tested and not hoped for.

It keeps two pictures: what a running program sees, and what would be there after a power cut.
Writing changes the first; `sync` copies a file's bytes, `sync_directory` a directory's names, to
the second.

    crash(random)   a new disk with what survived: all that was synced, and of the rest a random
                    part, cut at any byte, for a disk may have written some of it
    room_bytes      how many more bytes can be written before the disk is full
    flip(...)       one bit of a file turns over, as old disks do
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from random import Random


@dataclass(slots=True, eq=False)
class _Inode:
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


_Names = dict[str, _Inode]
_Change = tuple[str, Callable[[_Names], None]]  # the directory it is in, and what it does to names


class MemoryDisk:
    def __init__(self, room_bytes: int | None = None) -> None:
        self.room_bytes = room_bytes  # None: never full
        self._names: _Names = {}
        self._synced_names: _Names = {}
        self._unsynced: list[_Change] = []  # in order: a file system journals names in order
        self._directories: set[str] = {"."}

    # ── what a program does ──

    def names(self, directory: str) -> list[str]:
        inside = PurePosixPath(directory)
        files = [PurePosixPath(p) for p in [*self._names, *self._directories - {"."}]]
        return sorted({p.name for p in files if p.parent == inside})

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def make_directory(self, path: str) -> None:
        self._directories.add(path)

    def open(self, path: str) -> MemoryFile:
        if path not in self._names:
            inode = _Inode()
            self._change(path, lambda names: names.update({path: inode}))
        return MemoryFile(self, self._names[path])

    def read(self, path: str) -> bytes:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(self._names[path].data)

    def rename(self, old: str, new: str) -> None:
        if old not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        inode = self._names[old]

        def move(names: _Names) -> None:
            names.pop(old, None)
            names[new] = inode

        self._change(new, move)

    def remove(self, path: str) -> None:
        self._directories.discard(path)
        if path in self._names:

            def forget(names: _Names) -> None:
                names.pop(path, None)

            self._change(path, forget)

    def sync_directory(self, path: str) -> None:
        left: list[_Change] = []
        for directory, change in self._unsynced:
            if directory == str(PurePosixPath(path)):
                change(self._synced_names)
            else:
                left.append((directory, change))
        self._unsynced = left

    def _change(self, path: str, change: Callable[[_Names], None]) -> None:
        change(self._names)
        self._unsynced.append((str(PurePosixPath(path).parent), change))

    # ── what the world does ──

    def crash(self, random: Random) -> MemoryDisk:
        """The disk after a power cut. This one must not be used any more."""
        names = dict(self._synced_names)
        for _directory, change in self._unsynced[: random.randint(0, len(self._unsynced))]:
            change(names)
        after = MemoryDisk(self.room_bytes)
        after._directories = set(self._directories)
        for path in sorted(names):
            inode = _Inode(bytearray(_survivors(names[path], random)))
            inode.synced = bytes(inode.data)
            after._names[path] = inode
        after._synced_names = dict(after._names)
        return after

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        inode = self._names[path]
        inode.data[position] ^= 1 << bit
        inode.synced = bytes(inode.data)


def _survivors(inode: _Inode, random: Random) -> bytes:
    """What a crash leaves of a file: what was synced, and a prefix of the rest."""
    common = min(len(inode.synced), len(inode.data))
    if inode.synced[:common] != inode.data[:common] or len(inode.data) < len(inode.synced):
        return random.choice([inode.synced, bytes(inode.data)])  # cut back, or written over
    fresh = bytes(inode.data[len(inode.synced) :])
    kept = random.randint(0, len(fresh))
    # A file's length may be on disk before its bytes are: then there are zeros at its end.
    zeros = random.randint(0, len(fresh) - kept) if random.random() < 0.3 else 0
    return inode.synced + fresh[:kept] + bytes(zeros)


class MemoryFile:
    def __init__(self, disk: MemoryDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode

    @property
    def size(self) -> int:
        return len(self._inode.data)

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._inode.data[position : position + size])

    def map(self) -> memoryview:
        return memoryview(bytes(self._inode.data))

    def append(self, data: bytes | bytearray | memoryview) -> None:
        room = self._disk.room_bytes
        if room is not None:
            taken = min(room, len(data))
            self._disk.room_bytes = room - taken
            self._inode.data += data[:taken]
            if taken < len(data):
                raise OSError(errno.ENOSPC, "no space left on device")
            return
        self._inode.data += data

    def truncate(self, size: int) -> None:
        if size < len(self._inode.data):
            del self._inode.data[size:]
        else:
            self._inode.data += bytes(size - len(self._inode.data))

    def sync(self) -> None:
        self._inode.synced = bytes(self._inode.data)

    def close(self) -> None:
        pass

    def fileno(self) -> int | None:
        return None
