"""A disk on which one may do anything, over files that stay as they are.

A rehearsal: what is written, renamed or removed goes to memory; what is only read comes from the
directory underneath, which is opened for reading and never changed.
"""

from __future__ import annotations

from pathlib import Path

from sexton.base.errors import ConfigError
from sexton.log.disk import File
from sexton.log.memory_disk import MemoryDisk
from sexton.log.real_disk import RealFile


class OverlayDisk:
    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise ConfigError(str(root), "is not a directory")
        self._above = MemoryDisk()
        self._hidden: set[str] = set()

    def names(self, directory: str) -> list[str]:
        below = self.root / directory
        found = {path.name for path in below.iterdir()} if below.is_dir() else set()
        seen = {name for name in found if f"{directory}/{name}" not in self._hidden}
        return sorted(seen.union(self._above.names(directory)))

    def exists(self, path: str) -> bool:
        return self._above.exists(path) or self._is_below(path)

    def make_directory(self, path: str) -> None:
        if not (self.root / path).is_dir():
            self._above.make_directory(path)

    def open(self, path: str) -> File:
        if not self._above.exists(path) and self._is_below(path):
            return _LiftedOnWrite(self, path)
        return self._above.open(path)

    def read(self, path: str) -> bytes:
        if self._above.exists(path) or path in self._hidden:
            return self._above.read(path)
        return (self.root / path).read_bytes()

    def rename(self, old: str, new: str) -> None:
        self.lift(old)
        self._above.rename(old, new)
        self._hidden.update((old, new))

    def remove(self, path: str) -> None:
        self._above.remove(path)
        self._hidden.add(path)

    def sync_directory(self, path: str) -> None:
        """Nothing here has to last."""

    def write_back(self, path: str) -> None:
        """Nor to be anywhere soon."""

    def room(self) -> None:
        """Nothing is written to the disk below."""

    def lift(self, path: str) -> File:
        """Brings a file into memory, where it may be changed."""
        content = None if self._above.exists(path) else self.read(path)
        file = self._above.open(path)
        if content is not None:
            file.append(content)
        return file

    def _is_below(self, path: str) -> bool:
        return path not in self._hidden and (self.root / path).exists()


class _LiftedOnWrite:
    """A file of the directory underneath, until somebody changes it."""

    def __init__(self, disk: OverlayDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._lifted = False
        self._file: File = RealFile(disk.root / path, read_only=True)

    @property
    def size(self) -> int:
        return self._file.size

    def read_at(self, position: int, size: int) -> bytes:
        return self._file.read_at(position, size)

    def read_into(self, position: int, buffer: memoryview) -> int:
        return self._file.read_into(position, buffer)

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._lift().append(data)

    def truncate(self, size: int) -> None:
        self._lift().truncate(size)

    def _lift(self) -> File:
        if not self._lifted:
            self._file, self._lifted = self._disk.lift(self._path), True
        return self._file

    def sync(self) -> None:
        """Nothing here has to last."""

    def close(self) -> None:
        self._file.close()

    def fileno(self) -> int | None:
        return self._file.fileno()
