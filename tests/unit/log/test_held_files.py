"""How many files a log holds open: one a segment, and the indexes of the one that is written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexton.log.cleaner import CleanerOptions, clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.partition import PartitionLog
from sexton.log.real_disk import RealDisk
from sexton.log.recovery import open_log
from tests.log_text import Writer

CONFIG = LogConfig(segment_bytes=200, index_interval_bytes=0)


class CountingDisk(RealDisk):
    """A real one, which can say what of it is open."""

    def held(self) -> list[str]:
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        found = [link.readlink() for link in links if link.exists()]
        return sorted(path.suffix for path in found if path.is_relative_to(self.root))


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="only Linux says which files are open"
)


def log_of_thirty_segments(tmp_path: Path) -> PartitionLog:
    log = open_log(CountingDisk(tmp_path), "t-0", CONFIG, now_ms=1000).log
    for number in range(60):
        log.append_as_leader(Writer().batch(f"{number}=1"), 0, 1000)
    assert len(log.segments) == 30
    return log


def held(log: PartitionLog) -> tuple[int, int]:
    """Logs, and indexes."""
    assert isinstance(log.disk, CountingDisk)
    suffixes = log.disk.held()
    return suffixes.count(".log"), len(suffixes) - suffixes.count(".log")


def test_indexes_of_segments_that_are_full_are_not_held(tmp_path: Path) -> None:
    log = log_of_thirty_segments(tmp_path)
    assert held(log) == (30, 2)
    log.truncate_to(1, 1000)  # the first is written to again
    log.append_as_leader(Writer().batch("a=1"), 0, 1000)
    log.close(1000)
    opened = open_log(log.disk, "t-0", CONFIG, now_ms=1000, clean=True)
    assert opened.findings == [] and opened.log.end_offset == 2


def test_nor_are_those_that_recovery_or_a_cleaner_has_made(tmp_path: Path) -> None:
    disk = log_of_thirty_segments(tmp_path).disk  # as if it had been killed
    found = open_log(disk, "t-0", CONFIG, now_ms=1000, high_watermark=60).log
    logs, indexes = held(found)
    assert (logs, indexes <= 2) == (30, True)
    found.roll(1000)
    clean(found, Bounds.independent(1000, found.active.base_offset), CleanerOptions(1000))
    logs, indexes = held(found)
    assert logs == len(found.segments) and indexes <= 2
