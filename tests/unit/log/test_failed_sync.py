"""A disk that does not keep what it was told to keep ends the broker; nobody is told a lie.

A failed fsync is told once. The kernel drops what it could not write, and the next fsync succeeds
without it: whoever asked again would take lost records for safe ones.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sexton.base.errors import Refused
from sexton.log.config import LogConfig
from sexton.log.disk import DiskFailed
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.real_disk import RealDisk
from sexton.log.recovery import open_log
from sexton.records.few import few_batch


def log_on(disk: MemoryDisk, config: LogConfig) -> PartitionLog:
    disk.make_directory("orders-0")
    return open_log(disk, "orders-0", config, now_ms=0, clean=True).log


def append(log: PartitionLog, number: int) -> None:
    log.append_as_leader(few_batch([(b"k", b"%d" % number)], number), 0, number)


def test_a_record_that_is_in_the_log_is_not_refused() -> None:
    disk = MemoryDisk()
    log = log_on(disk, LogConfig(flush_messages=1))
    append(log, 0)
    disk.syncs_fail = True
    with pytest.raises(DiskFailed):
        append(log, 1)
    assert log.end_offset == 2, "an answer to the producer would have to say so"
    assert log.recovery_point == 1


def test_without_flush_messages_nothing_is_synced() -> None:
    disk = MemoryDisk()
    log = log_on(disk, LogConfig())
    disk.syncs_fail = True
    append(log, 0)
    assert log.end_offset == 1


def test_nothing_is_appended_behind_a_segment_that_cannot_be_synced() -> None:
    disk = MemoryDisk()
    log = log_on(disk, LogConfig(segment_bytes=100))
    append(log, 0)
    disk.syncs_fail = True
    with pytest.raises(DiskFailed):
        append(log, 1)
    assert len(log.segments) == 1
    assert log.recovery_point == 0


def test_a_full_disk_is_an_answer_while_nothing_was_written() -> None:
    disk = MemoryDisk()
    log = log_on(disk, LogConfig())
    append(log, 0)
    disk.room_bytes = 10
    with pytest.raises(Refused):
        append(log, 1)
    assert log.end_offset == 1


def test_a_full_disk_is_none_once_the_record_is_there() -> None:
    disk = MemoryDisk()
    log = log_on(disk, LogConfig(flush_messages=2))
    append(log, 0)
    batch = few_batch([(b"k", b"v")], 1)
    disk.room_bytes = len(batch)  # and none for the epoch that begins with it
    with pytest.raises(DiskFailed):
        log.append_as_leader(batch, 1, 1)
    assert log.end_offset == 2


@pytest.mark.parametrize("call", ["fdatasync", "ftruncate"])
def test_a_file_tells_a_failed_disk_from_a_full_one(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    file = RealDisk(tmp_path).open("f")
    file.append(b"abc")
    monkeypatch.setattr(os, call, fails)
    with pytest.raises(DiskFailed) as caught:
        file.sync() if call == "fdatasync" else file.truncate(1)
    assert caught.value.errno == errno.EIO


def test_a_directory_does_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk = RealDisk(tmp_path)
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(DiskFailed):
        disk.sync_directory(".")
