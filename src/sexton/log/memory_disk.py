"""A disk that can fail on demand, so that what survives a crash is tested and not hoped for.

It keeps two pictures: what a running program sees, and what would be there after a power cut.
Writing changes the first; `sync` brings a file's bytes, `sync_directory` a directory's names, to
the second. A log grows at its end, so the second picture of a file is mostly how much of the first
is safe; only where a file is cut below that are its old bytes kept until the next `sync`.

    crash(random)   a new disk with what survived: all that was synced, and of the rest a random
                    part, cut at any byte, for a disk may have written some of it
    room_bytes      how many more bytes can be written before the disk is full
    syncs_fail      a file cannot be synced
    flip(...)       one bit of a file turns over, as old disks do
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from sexton.log.disk import DiskFailed


@dataclass(slots=True, eq=False)
class _Inode:
    data: bytearray = field(default_factory=bytearray)
    synced_size: int = 0  # so many bytes from the start of `data` are safe, unless:
    synced_before: bytes | None = None  # what was safe when the file was cut below it

    @property
    def synced(self) -> bytes:
        """What a power cut cannot take."""
        if self.synced_before is not None:
            return self.synced_before
        return bytes(self.data[: self.synced_size])

    def sync(self) -> None:
        self.synced_size, self.synced_before = len(self.data), None

    def truncate(self, size: int) -> None:
        if size < self.synced_size and self.synced_before is None:
            self.synced_before = self.synced
        if size < len(self.data):
            del self.data[size:]
        else:
            self.data += bytes(size - len(self.data))


class _Change(NamedTuple):
    """A path that leads nowhere any more, and one that leads to a file from now on."""

    directory: str  # where it is written down
    gone: str | None
    path: str | None = None
    inode: _Inode | None = None

    def apply(self, names: dict[str, _Inode]) -> None:
        if self.gone is not None:
            names.pop(self.gone, None)
        if self.path is not None and self.inode is not None:
            names[self.path] = self.inode


class MemoryDisk:
    def __init__(self, room_bytes: int | None = None) -> None:
        self.room_bytes = room_bytes  # None: never full
        self.syncs_fail = False
        self._names: dict[str, _Inode] = {}
        self._synced_names: dict[str, _Inode] = {}
        self._unsynced: list[_Change] = []  # in order: a file system journals names in order
        self._directories: set[str] = {"."}
        self._inside: dict[str, set[str]] = {}  # the names in each directory

    # ── what a program does ──

    def names(self, directory: str) -> list[str]:
        return sorted(self._inside.get(directory, ()))

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def make_directory(self, path: str) -> None:
        if path not in self._directories:
            self._directories.add(path)
            self._list(path)

    def open(self, path: str) -> MemoryFile:
        inode = self._names.get(path)
        if inode is None:
            inode = _Inode()
            self._change(_Change(_parent(path), None, path, inode))
        return MemoryFile(self, inode)

    def read(self, path: str) -> bytes:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(self._names[path].data)

    def rename(self, old: str, new: str) -> None:
        if old in self._directories:
            self._rename_directory(old, new)
            return
        if old not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self._change(_Change(_parent(new), old, new, self._names[old]))

    def _rename_directory(self, old: str, new: str) -> None:
        """Safe at once, as it is if one is made or removed; what is in it is as safe as before."""
        self._directories.discard(old)
        self._unlist(old)
        self.make_directory(new)
        self._inside[new] = self._inside.pop(old, set())
        for names in (self._names, self._synced_names):
            for path in [path for path in names if path.startswith(f"{old}/")]:
                names[_moved(path, old, new)] = names.pop(path)
        self._unsynced = [
            _Change(
                _moved(change.directory, old, new), change.gone and _moved(change.gone, old, new),
                change.path and _moved(change.path, old, new), change.inode,
            )
            for change in self._unsynced
        ]  # fmt: skip

    def remove(self, path: str) -> None:
        if path in self._directories:
            self.sync_directory(path)  # a directory goes after what was in it
            self._directories.discard(path)
            self._unlist(path)
        if path in self._names:
            self._change(_Change(_parent(path), path))

    def sync_directory(self, path: str) -> None:
        left: list[_Change] = []
        for change in self._unsynced:
            if change.directory == path:
                change.apply(self._synced_names)
            else:
                left.append(change)
        self._unsynced = left

    def write_back(self, path: str) -> None:
        """What is promised by nobody is lost in a crash."""

    def room(self) -> None:
        """There is no file system."""

    def _change(self, change: _Change) -> None:
        """Every operation on names goes through here: a test may count them, or let one fail."""
        change.apply(self._names)
        self._unsynced.append(change)
        if change.gone is not None:
            self._unlist(change.gone)
        if change.path is not None:
            self._list(change.path)

    def _list(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        self._inside.setdefault(directory or ".", set()).add(name)

    def _unlist(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        self._inside[directory or "."].discard(name)

    # ── what the world does ──

    def crash(self, random: Random) -> MemoryDisk:
        """The disk after a power cut. This one must not be used any more."""
        names = dict(self._synced_names)
        for change in self._unsynced[: random.randint(0, len(self._unsynced))]:
            change.apply(names)
        after = MemoryDisk(self.room_bytes)
        for directory in self._directories - {"."}:
            after.make_directory(directory)
        for path in sorted(names):
            inode = _Inode(bytearray(_survivors(names[path], random)))
            inode.sync()
            after._names[path] = inode
            after._list(path)
        after._synced_names = dict(after._names)
        return after

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        inode = self._names[path]
        inode.data[position] ^= 1 << bit
        inode.sync()


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _moved(path: str, old: str, new: str) -> str:
    """Where a path leads after its directory was renamed."""
    inside = path == old or path.startswith(f"{old}/")
    return new + path[len(old) :] if inside else path


def _survivors(inode: _Inode, random: Random) -> bytes:
    """What a crash leaves of a file: what was synced, and a prefix of the rest."""
    synced = inode.synced
    common = min(len(synced), len(inode.data))
    if synced[:common] != inode.data[:common] or len(inode.data) < len(synced):
        return random.choice([synced, bytes(inode.data)])  # cut back, or written over
    fresh = bytes(inode.data[len(synced) :])
    kept = random.randint(0, len(fresh))
    # A file's length may be on disk before its bytes are: then there are zeros at its end.
    zeros = random.randint(0, len(fresh) - kept) if random.random() < 0.3 else 0
    return synced + fresh[:kept] + bytes(zeros)


class MemoryFile:
    __slots__ = ("_disk", "_inode")

    def __init__(self, disk: MemoryDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode

    @property
    def size(self) -> int:
        return len(self._inode.data)

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._inode.data[position : position + size])

    def read_into(self, position: int, buffer: memoryview) -> int:
        found = self._inode.data[position : position + len(buffer)]
        buffer[: len(found)] = found
        return len(found)

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
        self._inode.truncate(size)

    def sync(self) -> None:
        if self._disk.syncs_fail:
            raise DiskFailed(errno.EIO, "input/output error")
        self._inode.sync()

    def close(self) -> None:
        pass

    def fileno(self) -> int | None:
        return None
