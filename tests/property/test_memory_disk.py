"""The disk in memory against one that simply copies everything whenever something is synced."""

from __future__ import annotations

from pathlib import PurePosixPath
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.log.memory_disk import MemoryDisk

PATHS = ["a", "t-0/a", "t-0/b", "t-1/a"]
paths = st.sampled_from(PATHS)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), paths, st.binary(max_size=9)),
        st.tuples(st.just("append"), paths, st.binary(max_size=9)),
        st.tuples(st.just("truncate"), paths, st.integers(0, 20)),
        st.tuples(st.just("sync"), paths, st.none()),
        st.tuples(st.just("rename"), paths, paths),
        st.tuples(st.just("remove"), paths, st.none()),
        st.tuples(st.just("sync_directory"), st.sampled_from([".", "t-0", "t-1"]), st.none()),
        st.tuples(st.just("crash"), st.just(""), st.integers(0, 99)),
    ),
    max_size=40,
)


class Plain:
    """What was written and what was synced, both as whole copies."""

    def __init__(self) -> None:
        self.files: dict[str, list[bytes]] = {}  # content, synced content; shared by both pictures
        self.synced: dict[str, list[bytes]] = {}
        self.journal: list[tuple[str, str | None, str | None, Any]] = []

    def _note(self, path: str, gone: str | None, new: str | None, file: Any) -> None:
        change = (str(PurePosixPath(path).parent), gone, new, file)
        self._apply(self.files, change)
        self.journal.append(change)

    @staticmethod
    def _apply(names: dict[str, Any], change: tuple[str, str | None, str | None, Any]) -> None:
        _directory, gone, new, file = change
        if gone is not None:
            names.pop(gone, None)
        if new is not None:
            names[new] = file

    def _file(self, path: str) -> list[bytes]:
        if path not in self.files:
            self._note(path, None, path, [b"", b""])
        return self.files[path]

    def append(self, path: str, data: bytes) -> None:
        self._file(path)[0] += data

    def truncate(self, path: str, size: int) -> None:
        file = self._file(path)
        file[0] = file[0][:size].ljust(size, b"\0")

    def sync(self, path: str, _: None) -> None:
        file = self._file(path)
        file[1] = file[0]

    def rename(self, old: str, new: str) -> None:
        if old in self.files:
            self._note(new, old, new, self.files[old])

    def remove(self, path: str, _: None) -> None:
        if path in self.files:
            self._note(path, path, None, None)

    def sync_directory(self, path: str, _: None) -> None:
        for change in self.journal:
            if change[0] == path:
                self._apply(self.synced, change)
        self.journal = [change for change in self.journal if change[0] != path]

    def crash(self, _: str, seed: int) -> None:
        random = Random(seed)
        names = dict(self.synced)
        for change in self.journal[: random.randint(0, len(self.journal))]:
            self._apply(names, change)
        left = {path: self._survivors(names[path], random) for path in sorted(names)}
        self.files = {path: [data, data] for path, data in left.items()}
        self.synced, self.journal = dict(self.files), []

    @staticmethod
    def _survivors(file: list[bytes], random: Random) -> bytes:
        data, synced = file
        if not data.startswith(synced):
            return random.choice([synced, data])
        fresh = data[len(synced) :]
        kept = random.randint(0, len(fresh))
        zeros = random.randint(0, len(fresh) - kept) if random.random() < 0.3 else 0
        return synced + fresh[:kept] + bytes(zeros)


class Real:
    """The same operations on the disk under test."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()

    def append(self, path: str, data: bytes) -> None:
        self.disk.open(path).append(data)

    def truncate(self, path: str, size: int) -> None:
        self.disk.open(path).truncate(size)

    def sync(self, path: str, _: None) -> None:
        self.disk.open(path).sync()

    def rename(self, old: str, new: str) -> None:
        if self.disk.exists(old):
            self.disk.rename(old, new)

    def remove(self, path: str, _: None) -> None:
        self.disk.remove(path)

    def sync_directory(self, path: str, _: None) -> None:
        self.disk.sync_directory(path)

    def crash(self, _: str, seed: int) -> None:
        self.disk = self.disk.crash(Random(seed))


@settings(max_examples=400)
@given(operations)
def test_what_survives_is_what_a_disk_of_whole_copies_would_leave(steps: list[Any]) -> None:
    plain, real = Plain(), Real()
    for name, path, argument in [*steps, ("crash", "", 7)]:
        getattr(plain, name)(path, argument)
        getattr(real, name)(path, argument)
        assert {p: real.disk.read(p) for p in PATHS if real.disk.exists(p)} == {
            path: file[0] for path, file in plain.files.items()
        }
        for directory in (".", "t-0", "t-1"):
            inside = [p for p in map(PurePosixPath, plain.files) if str(p.parent) == directory]
            assert real.disk.names(directory) == sorted(p.name for p in inside)


def test_directories_are_listed_beside_files_until_they_are_removed() -> None:
    disk = MemoryDisk()
    disk.make_directory("t-0")
    disk.make_directory("t-0")
    disk.open("a").append(b"x")
    assert disk.names(".") == ["a", "t-0"]
    assert disk.names("t-0") == disk.names("nowhere") == []
    disk.remove("t-0")
    assert disk.names(".") == ["a"]
    assert not disk.exists("t-0")


def test_a_file_that_is_not_there_cannot_be_read_or_renamed() -> None:
    disk = MemoryDisk()
    with pytest.raises(FileNotFoundError):
        disk.read("a")
    with pytest.raises(FileNotFoundError):
        disk.rename("a", "b")
