"""Where the committed state of one task is: RocksDB in a directory, or memory for a test.

    write(changes)       all of it or nothing, the checkpoint among it
    get, scan            what was written
    look()               a picture that later writes do not change, with its own checkpoint

A `write` is one RocksDB batch in one column family. It need not be on the platter: after a power
cut RocksDB has a prefix of the batches, and every prefix is a store that says truly where it is.

RocksDB checks what it reads. A store that it calls corrupt is `DamagedStore`, and stays so until it
is wiped: files and all, as what is damaged cannot be deleted key by key. Anything else that is
wrong with a disk (full, no rights, too many open files) says nothing against the store.
"""

from __future__ import annotations

import shutil
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from weakref import WeakSet

from sexton.base.errors import ConfigError, CorruptLog, SextonError
from sexton.base.extras import need
from sexton.stores.layout import AFTER_DATA

if TYPE_CHECKING:
    from rocksdict import Rdict, WriteBatch

Changes = Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]

_LET_GO_S = 5.0  # for readers of a damaged store to come back from the call that they are in


class DamagedStore(CorruptLog):
    """Its bytes are not those that were written; what it held is in the changelog."""


class DiskTrouble(SextonError):
    """A store that cannot be used as things are, and may be quite right."""


class InUse(ConfigError):
    """Somebody else has it open."""


class Reading(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def scan(
        self, start: bytes, end: bytes, *, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys in [start, end), in order."""
        ...


class Disk(Reading, Protocol):
    damage: str | None  # why it is of no use until it is wiped

    def write(self, changes: Changes) -> None:
        """All of it or nothing; None deletes."""

    def look(self) -> Reading: ...

    def wipe(self) -> None: ...

    def close(self) -> None: ...


class MemoryDisk:
    damage: str | None = None

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
        self.damage: str | None = None
        self._read_only = read_only
        self._db = _open(path, read_only)
        # RocksDB closes a store when nobody looks at it any more, so we know who does.
        self._lock = threading.Lock()
        self._walks: WeakSet[_Walk] = WeakSet()

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._db.get(key)
        except Exception as error:  # noqa: BLE001 - RocksDB's errors come as plain Exceptions
            self._failed(error)

    def scan(
        self, start: bytes, end: bytes, *, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return _scan(self._walk(), start, end, backwards)

    def write(self, changes: Changes) -> None:
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in _pairs(changes):
            if value is None:
                delete(key)
            else:
                put(key, value)
        self._write(batch)

    def look(self) -> Reading:
        return _Picture(self._walk())

    def wipe(self) -> None:
        from rocksdict import WriteBatch

        if self.damage is None:
            batch = WriteBatch(raw_mode=True)
            batch.delete_range(b"", AFTER_DATA)
            try:
                self._write(batch)
                return
            except DamagedStore:
                pass
        self._begin_anew()

    def close(self) -> None:
        self._db.close()

    def _write(self, batch: WriteBatch) -> None:
        try:
            self._db.write(batch)
        except Exception as error:  # noqa: BLE001 - RocksDB's errors come as plain Exceptions
            self._failed(error)

    def _walk(self) -> _Walk:
        with self._lock:
            try:
                walk = _Walk(self._db.iter(), self)
            except Exception as error:  # noqa: BLE001 - it is closed, for instance
                self._failed(error)
            self._walks.add(walk)
            return walk

    def _failed(self, error: Exception) -> NoReturn:
        said = _in_words(self.path, str(error))
        if isinstance(said, DamagedStore):
            self.damage = said.why
        raise said from None

    def _begin_anew(self) -> None:
        """In other files; whoever still looks at the old ones is told so at his next step."""
        with self._lock:
            for walk in self._walks:
                walk.end()
            try:
                self._db.close()
            except Exception:  # noqa: BLE001 - what cannot be written down is not missed
                pass
            remove(self.path)
            deadline_s = time.monotonic() + _LET_GO_S
            while True:
                try:
                    self._db = _open(self.path, self._read_only)
                    break
                except InUse:
                    if time.monotonic() > deadline_s:
                        raise
                    time.sleep(0.01)
            self.damage = None


class _Walk:
    """One iterator of RocksDB's, which can be taken away from its readers.

    Nobody else holds on to it: not a scan that is half-way, nor the traceback of an error.
    """

    __slots__ = ("__weakref__", "_disk", "_walk")

    def __init__(self, walk: Any, disk: RocksDisk) -> None:
        self._walk, self._disk = walk, disk

    def at(self) -> Any:
        """For one step; whoever makes the next one asks again."""
        if self._walk is None:
            raise DiskTrouble(str(self._disk.path), "was damaged, and is rebuilt", "ask again")
        return self._walk

    def check(self) -> None:
        """Where it is no longer valid: is that the end, or an error?"""
        try:
            self.at().status()
        except SextonError:
            raise
        except Exception as error:  # noqa: BLE001 - RocksDB's errors come as plain Exceptions
            self._disk._failed(error)

    def end(self) -> None:
        self._walk = None


class _Picture:
    """One iterator, which shows the store as it was when it was made.

    (rocksdict's Snapshot does not: 0.3.29 takes it into account for single keys only.)
    """

    def __init__(self, walk: _Walk) -> None:
        self._walk = walk

    def get(self, key: bytes) -> bytes | None:
        self._walk.at().seek(key)
        found = _here(self._walk)
        return None if found is None or found[0] != key else found[1]

    def scan(
        self, start: bytes, end: bytes, *, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        # At once: with one iterator there cannot be two scans half-way.
        return iter(list(_scan(self._walk, start, end, backwards)))


def _pairs(changes: Changes) -> Iterable[tuple[bytes, bytes | None]]:
    return changes.items() if isinstance(changes, Mapping) else changes


def _here(walk: _Walk) -> tuple[bytes, bytes] | None:
    """Where it stands; None: after the last, and that is certain."""
    if walk.at().valid():
        return walk.at().key(), walk.at().value()
    walk.check()
    return None


def _scan(walk: _Walk, start: bytes, end: bytes, backwards: bool) -> Iterator[tuple[bytes, bytes]]:
    if backwards:
        walk.at().seek_for_prev(end)
        found = _here(walk)
        if found is not None and found[0] >= end:
            walk.at().prev()
            found = _here(walk)
    else:
        walk.at().seek(start)
        found = _here(walk)
    while found is not None and start <= found[0] < end:
        yield found
        if backwards:
            walk.at().prev()
        else:
            walk.at().next()
        found = _here(walk)


def remove(path: Path) -> None:
    """For a store that is of no use: it is gone at once, or not at all.

    What is left of one that was deleted halfway could be taken for a store.
    """
    away = path.with_name(f"{path.name}.damaged")
    try:
        if away.exists():
            shutil.rmtree(away)
        if path.exists():
            path.rename(away)
            (away / "CURRENT").unlink(missing_ok=True)  # then nobody takes it for one
            shutil.rmtree(away)
    except OSError as error:
        raise DiskTrouble(str(path), f"cannot be deleted: {error}", _REMEDY) from None


def must_be_installed() -> None:
    """Missing, with what to install, if it is not: asked before an instance joins its group."""
    need("rocksdict", otherwise='store="memory" for a test')


def _open(path: Path, read_only: bool) -> Rdict:
    must_be_installed()
    from rocksdict import AccessType, Options, Rdict

    options = Options(raw_mode=True)
    options.create_if_missing(not read_only)
    options.set_keep_log_file_num(2)
    options.set_max_total_wal_size(64 << 20)
    access = AccessType.read_only() if read_only else AccessType.read_write()
    try:
        if not read_only:
            path.mkdir(parents=True, exist_ok=True)
        return Rdict(str(path), options, access_type=access)
    except Exception as error:  # noqa: BLE001 - RocksDB's errors come as plain Exceptions
        raise _in_words(path, str(error)) from None


_REMEDY = (
    "fix that and start again; or delete the directory: the store is rebuilt from its changelog"
)
# What an operating system says when it is not the file that is wrong. RocksDB, which tried to read
# it, may go on to call it corrupt.
_NOT_THE_FILE = (
    "Too many open files",
    "No space left on device",
    "Disk quota exceeded",
    "Permission denied",
    "Operation not permitted",
    "Read-only file system",
    "Input/output error",
    "Cannot allocate memory",
)


def _in_words(path: Path, said: str) -> SextonError:
    """By what RocksDB says, and not by how the directory happens to be called."""
    words = said.replace(f"{path}/", "/")
    if "lock hold by current process" in words or "While lock file: /LOCK: Resource" in words:
        hint = "give each instance a state directory of its own"
        return InUse(str(path), "is in use by another process", hint)
    bad = words.startswith("Corruption") or "No such file or directory" in words
    if bad and not any(each in words for each in _NOT_THE_FILE):
        return DamagedStore(str(path), said)
    return DiskTrouble(str(path), said, _REMEDY)
