"""A directory of this machine as a `Disk`: the only place where a log meets real files."""

# ruff: noqa: PTH103, PTH105, PTH106, PTH108, PTH110, PTH208
# pathlib takes several times as long, and a broker names files all the time.

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError
from sexton.log.disk import DiskFailed, Room

if TYPE_CHECKING:
    from concurrent.futures import Executor


class RealDisk:
    """A directory of this machine."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise ConfigError(str(root), "is not a directory")
        self._prefix = f"{self.root}/"

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._prefix + directory))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(self._prefix + path)

    def make_directory(self, path: str) -> None:
        os.makedirs(self._prefix + path, exist_ok=True)

    def open(self, path: str) -> RealFile:
        return RealFile(self._prefix + path)

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def rename(self, old: str, new: str) -> None:
        os.replace(self._prefix + old, self._prefix + new)

    def remove(self, path: str) -> None:
        target = self._prefix + path
        with suppress(FileNotFoundError):
            try:
                os.unlink(target)
            except (IsADirectoryError, PermissionError):
                os.rmdir(target)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(self._prefix + path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise DiskFailed(error.errno, error.strerror, path) from error
        finally:
            os.close(descriptor)

    def write_back(self, path: str) -> None:
        _write_back_thread().submit(_write_back, self._prefix + path)

    def room(self) -> Room | None:
        try:
            told = os.statvfs(self._prefix)
        except OSError:
            return None
        return Room(told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize)


@cache
def _write_back_thread() -> Executor:
    """Made when a log has grown so much that it is of use."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1, "sexton-write-back")


def _write_back(path: str) -> None:
    """By a descriptor of its own: whoever syncs the log hears of errors all the same."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)


class RealFile:
    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self._descriptor = -1
        mode = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        self._descriptor = os.open(path, mode | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def read_into(self, position: int, buffer: memoryview) -> int:
        got = 0
        while got < len(buffer):
            more = os.preadv(self._descriptor, [buffer[got:]], position + got)
            if more == 0:
                break
            got += more
        return got

    def append(self, data: bytes | bytearray | memoryview) -> None:
        left = memoryview(data)
        while left:
            written = os.pwrite(self._descriptor, left, self._size)
            self._size += written
            left = left[written:]

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise DiskFailed(error.errno, error.strerror) from error
        self._size = size

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise DiskFailed(error.errno, error.strerror) from error

    def close(self) -> None:
        # Before it is closed: the number may soon be that of another file.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # A removed segment's file lives on until the last reader lets go of it.
        self.close()

    def fileno(self) -> int | None:
        return self._descriptor
