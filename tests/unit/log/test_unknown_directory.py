"""A directory that does not say whose records it holds is in the way of a new log."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from sexton.base.partitions import TopicPartition
from sexton.log.config import LogConfig
from sexton.log.directory import DataDirectory
from sexton.log.names import METADATA
from sexton.log.real_disk import RealDisk

PARTITION = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=7)
RECORDS = b"records that somebody may need"
SEGMENT = f"{0:020}.log"


def create(root: Path) -> DataDirectory:
    directory = DataDirectory.open(RealDisk(root), lambda _: LogConfig(), 1000)
    assert not directory.logs
    directory.create(PARTITION, TOPIC_ID, LogConfig(), 1000)
    assert directory.topic_id(PARTITION) == TOPIC_ID
    assert directory.logs[PARTITION].end_offset == 0
    return directory


@pytest.mark.parametrize("metadata", [None, b"torn"])
def test_records_of_which_nobody_knows_whose_they_are_are_set_aside(
    tmp_path: Path, metadata: bytes | None
) -> None:
    for life in (1, 2):  # the second one finds the name of the first taken
        unknown = tmp_path / str(PARTITION)
        if life == 2:
            (unknown / METADATA).unlink()
        unknown.mkdir(exist_ok=True)
        (unknown / SEGMENT).write_bytes(RECORDS)
        if metadata is not None:
            (unknown / METADATA).write_bytes(metadata)
        directory = create(tmp_path)
        strays = sorted(tmp_path.glob("t-0.*-stray"))
        assert [(stray / SEGMENT).read_bytes() for stray in strays] == [RECORDS] * life
        (finding,) = directory.findings
        assert finding.code == "stray-log" and finding.where == strays[-1].name


def test_what_a_crash_left_of_a_log_without_records_is_no_stranger(tmp_path: Path) -> None:
    (tmp_path / str(PARTITION)).mkdir()
    (tmp_path / str(PARTITION) / SEGMENT).touch()
    (tmp_path / str(PARTITION) / METADATA).touch()
    assert not create(tmp_path).findings
    assert not list(tmp_path.glob("*-stray"))
