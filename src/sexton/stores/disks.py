"""Where the committed state of one task is: RocksDB in a directory, or memory for a test.

    write(changes)       all of it or nothing, the checkpoint among it
    get, scan            what was written
    look()               a picture that later writes do not change, with its own checkpoint

A `write` is one RocksDB batch in one column family. It need not be on the platter: after a power
cut RocksDB has a prefix of the batches, and every prefix is a store that says truly where it is.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sexton.base.errors import ConfigError, CorruptLog, Missing
from sexton.stores.layout import AFTER_DATA

if TYPE_CHECKING:
    from rocksdict import Rdict

Changes = Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]


class Reading(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def scan(
        self, start: bytes, end: bytes, *, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys in [start, end), in order."""
        ...


class Disk(Reading, Protocol):
    def write(self, changes: Changes) -> None:
        """All of it or nothing; None deletes."""

    def look(self) -> Reading: ...

    def wipe(self) -> None: ...

    def close(self) -> None: ...


class MemoryDisk:
    def __init__(self) -> None:
        self._data: dict[bytes, bytes] = {}
        self._sorted: list[bytes] | None = None

    def get(self, key: bytes) -> bytes | None:
        return self._data.get(key)

    def scan(
        self, start: bytes, end: bytes, *, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        if self._sorted is None:
            self._sorted = sorted(self._data)
        keys = self._sorted[bisect_left(self._sorted, start) : bisect_left(self._sorted, end)]
        data = self._data
        return iter([(key, data[key]) for key in (reversed(keys) if backwards else keys)])

    def write(self, changes: Changes) -> None:
        after = dict(self._data)
        for key, value in _pairs(changes):
            if value is None:
                after.pop(key, None)
            else:
                after[key] = value
        self._data, self._sorted = after, None

    def look(self) -> Reading:
        picture = MemoryDisk()
        picture._data = self._data  # a write makes a new one
        return picture

    def wipe(self) -> None:
        self._data, self._sorted = {}, None

    def close(self) -> None:
        pass


class RocksDisk:
    """One task's directory; one process at a time, RocksDB sees to that."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._db = _open(path, read_only)

    def get(self, key: bytes) -> bytes | None:
        return self._db.get(key)

    def scan(
        self, start: bytes, end: bytes, *, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return _scan(self._db.iter(), start, end, backwards)

    def write(self, changes: Changes) -> None:
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in _pairs(changes):
            if value is None:
                delete(key)
            else:
                put(key, value)
        self._db.write(batch)

    def look(self) -> Reading:
        return _Picture(self._db.iter())

    def wipe(self) -> None:
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        batch.delete_range(b"", AFTER_DATA)
        self._db.write(batch)

    def close(self) -> None:
        self._db.close()


class _Picture:
    """One iterator, which shows the store as it was when it was made.

    (rocksdict's Snapshot does not: 0.3.29 takes it into account for single keys only.)
    """

    def __init__(self, walk: Any) -> None:
        self._walk = walk

    def get(self, key: bytes) -> bytes | None:
        walk = self._walk
        walk.seek(key)
        found: bytes | None = walk.value() if walk.valid() and walk.key() == key else None
        return found

    def scan(
        self, start: bytes, end: bytes, *, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        # At once: with one iterator there cannot be two scans half-way.
        return iter(list(_scan(self._walk, start, end, backwards)))


def _pairs(changes: Changes) -> Iterable[tuple[bytes, bytes | None]]:
    return changes.items() if isinstance(changes, Mapping) else changes


def _scan(walk: Any, start: bytes, end: bytes, backwards: bool) -> Iterator[tuple[bytes, bytes]]:
    if backwards:
        walk.seek_for_prev(end)
        if walk.valid() and walk.key() >= end:
            walk.prev()
    else:
        walk.seek(start)
    while walk.valid():
        key = walk.key()
        if not start <= key < end:
            return
        yield key, walk.value()
        if backwards:
            walk.prev()
        else:
            walk.next()
    walk.status()


def remove(path: Path) -> None:
    """For a store that cannot even be opened."""
    shutil.rmtree(path, ignore_errors=True)


def _open(path: Path, read_only: bool) -> Rdict:
    try:
        from rocksdict import AccessType, Options, Rdict
    except ImportError:
        hint = """pip install "sexton[stores]", or store="memory" for a test"""
        raise Missing("rocksdict", "is not installed", hint) from None
    options = Options(raw_mode=True)
    options.create_if_missing(not read_only)
    options.set_keep_log_file_num(2)
    options.set_max_total_wal_size(64 << 20)
    access = AccessType.read_only() if read_only else AccessType.read_write()
    if not read_only:
        path.mkdir(parents=True, exist_ok=True)
    try:
        return Rdict(str(path), options, access_type=access)
    except Exception as error:  # noqa: BLE001 - RocksDB's errors come as plain Exceptions
        raise _in_words(path, str(error)) from None


def _in_words(path: Path, said: str) -> Exception:
    if "lock" in said.lower():
        why = "is in use by another process"
        return ConfigError(str(path), why, "give each instance a state directory of its own")
    return CorruptLog(str(path), said)
