"""A log is deleted while a cleaning pass, in its own thread, still makes files beside it."""

from __future__ import annotations

import errno
import uuid
from pathlib import Path

import pytest

from sexton.base.partitions import TopicPartition
from sexton.log.config import LogConfig
from sexton.log.directory import DataDirectory
from sexton.log.real_disk import RealDisk

PARTITION = TopicPartition("t", 0)


class BusyDisk(RealDisk):
    """Whenever the log's directory has been looked through, there is one more file in it."""

    more: list[str]

    def names(self, directory: str) -> list[str]:
        found = super().names(directory)
        if directory == str(PARTITION) and self.more:
            self.open(f"{directory}/{self.more.pop(0)}").close()
        return found


def one_log(root: Path) -> tuple[BusyDisk, DataDirectory]:
    disk = BusyDisk(root)
    disk.more = []
    directory = DataDirectory.open(disk, lambda _: LogConfig(), 1000)
    directory.create(PARTITION, uuid.UUID(int=1), LogConfig(), 1000)
    return disk, directory


def test_what_a_pass_makes_meanwhile_goes_as_well(tmp_path: Path) -> None:
    disk, directory = one_log(tmp_path)
    suffixes = (".log", ".index", ".timeindex", ".txnindex")
    disk.more = [f"{0:020d}{suffix}.cleaned" for suffix in suffixes]
    directory.delete(PARTITION)
    assert disk.more == []
    assert not disk.exists(str(PARTITION))


def test_a_directory_that_somebody_fills_for_ever_is_told(tmp_path: Path) -> None:
    disk, directory = one_log(tmp_path)
    disk.more = [f"{number}.txt" for number in range(1000)]
    with pytest.raises(OSError, match="not empty") as raised:
        directory.delete(PARTITION)
    assert raised.value.errno == errno.ENOTEMPTY
