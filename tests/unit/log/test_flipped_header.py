"""A bit in the header of an old batch has turned: what does a log make of it when it is opened?"""

from __future__ import annotations

import pytest

from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from sexton.records.few import few_batch

LAST_OFFSET_DELTA = 23  # where it begins in a batch


def opened(disk: MemoryDisk, *, clean: bool, end: int = 0) -> PartitionLog:
    return open_log(
        disk, "orders-0", LogConfig(), now_ms=0, clean=clean, recovery_point=end, high_watermark=end
    ).log


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_does_not_claim_offsets_of_the_next(clean: bool) -> None:
    disk = MemoryDisk()
    disk.make_directory("orders-0")
    log = opened(disk, clean=True)
    for _ in range(3):
        log.append_as_leader(few_batch([(b"key", b"value")], 5), 1, 0)
        log.roll(0)
    log.advance_high_watermark(3)
    log.close(0)
    disk.flip("orders-0/00000000000000000001.log", LAST_OFFSET_DELTA + 2)

    log = opened(disk, clean=clean, end=3)
    log.check()
    assert [segment.end_offset for segment in log.segments] == [1, 2, 3, 3]
    assert log.end_offset == log.high_watermark == 3
