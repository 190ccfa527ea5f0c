"""A segment is written back while it grows, so that nobody waits long when it is closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexton.log import partition
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.real_disk import RealDisk, _write_back_thread
from sexton.log.recovery import open_log
from sexton.records.few import few_batch


class WatchedDisk(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self.written_back: list[tuple[str, int]] = []  # with their sizes then

    def write_back(self, path: str) -> None:
        self.written_back.append((path, self.open(path).size))


def test_a_disk_has_never_much_left_to_write_when_a_segment_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition, "WRITE_BACK_BYTES", 300)
    disk = WatchedDisk()
    disk.make_directory("t-0")
    log = open_log(disk, "t-0", LogConfig(segment_bytes=1000), now_ms=0, clean=True).log
    batch = few_batch([(b"k", b"v" * 40)], 1)
    while len(log.segments) < 3:
        log.append_as_leader(batch, 0, 1)
    assert {path for path, _ in disk.written_back} == {
        f"t-0/{s.base_offset:020}.log" for s in log.segments[:2]
    }
    for segment in log.segments[:2]:
        told = [0, *(size for path, size in disk.written_back if path == segment.path(".log"))]
        steps = [
            after - before for before, after in zip(told, [*told[1:], segment.size], strict=True)
        ]
        assert len(steps) > 2 and max(steps) < 300 + len(batch)


def test_a_file_that_has_gone_meanwhile_stays_so(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    file = disk.open("there")
    file.append(b"x" * 1000)
    disk.write_back("there")
    disk.write_back("gone")
    assert _write_back_thread().submit(lambda: "done").result(20) == "done"
    assert disk.names("") == ["there"]
    assert disk.read("there") == b"x" * 1000
    file.close()
