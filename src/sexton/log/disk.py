"""The only way to a file.

A log that opened files itself could not be tested for what happens when the machine dies between
two writes. So it is given a `Disk`: `RealDisk` is a directory of this machine; `memory_disk` is one
that can crash, tear a write, run full or flip a bit on demand.

The rules are those of a POSIX file system: written bytes are safe after `File.sync`; a name that
was created, renamed or removed is safe after `sync_directory` of its directory. Paths are relative
to the disk's root, with `/`.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path, PurePosixPath
from typing import Protocol

from sexton.base.errors import ConfigError


class File(Protocol):
    """An open file, read anywhere and written at its end."""

    @property
    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def map(self) -> memoryview:
        """The whole content, without a copy; it must not be cut while this is in use."""
        ...

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """All of `data`, or OSError and possibly a part of it."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

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


def replace(disk: Disk, path: str, data: bytes) -> None:
    """Durably gives `path` this content: afterwards it holds all of it, before, all of the old."""
    fresh = f"{path}.tmp"
    file = disk.open(fresh)
    file.truncate(0)
    file.append(data)
    file.sync()
    file.close()
    disk.rename(fresh, path)
    disk.sync_directory(str(PurePosixPath(path).parent))


class RealDisk:
    """A directory of this machine."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise ConfigError(str(root), "is not a directory")

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(path.name for path in (self.root / directory).iterdir())
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def make_directory(self, path: str) -> None:
        (self.root / path).mkdir(parents=True, exist_ok=True)

    def open(self, path: str) -> RealFile:
        return RealFile(self.root / path)

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def rename(self, old: str, new: str) -> None:
        (self.root / old).replace(self.root / new)

    def remove(self, path: str) -> None:
        target = self.root / path
        if target.is_dir():
            target.rmdir()
        else:
            target.unlink(missing_ok=True)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(self.root / path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class RealFile:
    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._descriptor = -1
        mode = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        self._descriptor = os.open(path, mode | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def map(self) -> memoryview:
        if self._size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._descriptor, self._size, access=mmap.ACCESS_READ))

    def append(self, data: bytes | bytearray | memoryview) -> None:
        left = memoryview(data)
        while left:
            written = os.pwrite(self._descriptor, left, self._size)
            self._size += written
            left = left[written:]

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._size = size

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        # A removed segment's file lives on until the last reader lets go of it.
        self.close()

    def fileno(self) -> int | None:
        return self._descriptor
