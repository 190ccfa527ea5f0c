"""The only way to a file.

A log that opened files itself could not be tested for what happens when the machine dies between
two writes. So it is given a `Disk`: `RealDisk` is a directory of this machine; `memory_disk` is one
that can crash, tear a write, run full or flip a bit on demand.

The rules are those of a POSIX file system: written bytes are safe after `File.sync`; a name that
was created, renamed or removed is safe after `sync_directory` of its directory. Paths are relative
to the disk's root, with `/`.
"""

from __future__ import annotations

import errno
from typing import NamedTuple, Protocol


class DiskFailed(OSError):
    """Nobody knows what the disk holds now, so nobody may go on with it.

    A failed fsync is told once: the kernel forgets what it could not write, and the next one
    succeeds without it. Kafka, too, gives a log directory up for that.
    """


class Room(NamedTuple):
    """Of a whole file system, which others may write to as well."""

    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """An open file, read anywhere and written at its end."""

    @property
    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fills the buffer; how many bytes it got: fewer only at the end of the file."""
        ...

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """All of `data`, or OSError and possibly a part of it."""
        ...

    def truncate(self, size: int) -> None:
        """Or DiskFailed."""
        ...

    def sync(self) -> None:
        """Or DiskFailed."""
        ...

    def close(self) -> None: ...

    def fileno(self) -> int | None:
        """For sendfile; None if there is no file of the operating system behind it."""
        ...


class Disk(Protocol):
    def names(self, directory: str) -> list[str]:
        """What is in a directory, sorted; nothing if there is no such directory."""
        ...

    def exists(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None: ...

    def open(self, path: str) -> File:
        """The file, created if there is none."""
        ...

    def read(self, path: str) -> bytes: ...

    def rename(self, old: str, new: str) -> None:
        """Takes the place of `new` if that exists."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file or an empty directory; no error if there is none."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def write_back(self, path: str) -> None:
        """Begins to make a file's bytes safe, so that its `sync` takes less long; returns at once.

        Promises nothing, and does not mind if the file is gone.
        """
        ...

    def room(self) -> Room | None:
        """How large the file system is, and how much of it is free; None: unknown."""
        ...


def replace(disk: Disk, path: str, data: bytes) -> None:
    """Durably gives `path` this content: afterwards it holds all of it, before, all of the old."""
    put(disk, path, data, sync=True)
    disk.sync_directory(path.rpartition("/")[0] or ".")


def put(disk: Disk, path: str, data: bytes, *, sync: bool = False) -> None:
    """Gives `path` this content at once; unless synced, a crash of the machine may undo it."""
    fresh = f"{path}.tmp"
    file = disk.open(fresh)
    if file.size:
        file.truncate(0)
    file.append(data)
    if sync:
        file.sync()
    file.close()
    disk.rename(fresh, path)


def remedy(error: OSError) -> str:
    """What the user has to do about it."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "allow more open files (`ulimit -n`): each replica of a partition needs three"
    return "free space or fix the disk, then try again"
