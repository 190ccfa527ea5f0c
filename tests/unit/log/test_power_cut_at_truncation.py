"""A power cut while a log is being cut or emptied leaves its beginning, never its end alone.

A replica that lost its first records and kept later ones would be taken for a good one: it goes on
from its end, joins the ISR, may lead, and what it lost is gone for everybody.
"""

from __future__ import annotations

from random import Random

import pytest

from sexton.log.config import LogConfig
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from sexton.records.few import few_batch
from sexton.sim.fused_disk import FusedDisk, PowerCut

CONFIG = LogConfig(segment_bytes=200)
RECORDS = 12


def full_log(disk: FusedDisk) -> PartitionLog:
    disk.make_directory("orders-0")
    log = open_log(disk, "orders-0", CONFIG, now_ms=0, clean=True).log
    for number in range(RECORDS):
        log.append_as_leader(few_batch([(b"k", b"%d" % number)], number), 0, number)
    log.flush(99)
    assert len(log.segments) > 4
    return log


def left_after_a_cut(offset: int, fuse: int, random: Random) -> list[int] | None:
    """The offsets that are left; None if all was done before the fuse burnt down."""
    disk = FusedDisk()
    log = full_log(disk)
    disk.fuse = fuse
    try:
        if offset:
            log.truncate_to(offset, 99)
        else:
            log.truncate_fully(0, 99)
    except PowerCut:
        pass
    else:
        return None
    after = open_log(
        disk.crashed(random), "orders-0", CONFIG, now_ms=99, recovery_point=RECORDS
    ).log
    assert after.log_start_offset == 0
    return [header.base_offset for _, _, header in after.batches(0)]


@pytest.mark.parametrize("offset", [0, 1, 5])
def test_what_is_left_begins_at_the_start_and_has_no_hole(offset: int) -> None:
    lengths = set()
    for seed in range(10):
        for fuse in range(100):
            left = left_after_a_cut(offset, fuse, Random(seed))
            if left is None:
                break
            assert left == list(range(len(left))), f"power cut after {fuse} operations"
            lengths.add(len(left))
    assert len(lengths) > 3, "cuts that take nothing prove nothing"


def left_after_two_cuts(fuse: int, random: Random) -> list[int] | None:
    """A batch in the middle is damaged, and the power goes again while the log is recovered."""
    disk = FusedDisk()
    log = full_log(disk)
    disk.memory.flip(log.segments[2].path(".log"), 80)
    disk = disk.crashed(random)
    disk.fuse = fuse
    try:
        open_log(disk, "orders-0", CONFIG, now_ms=99)
    except PowerCut:
        pass
    else:
        return None
    after = open_log(disk.crashed(random), "orders-0", CONFIG, now_ms=99).log
    return [header.base_offset for _, _, header in after.batches(0)]


def test_nor_has_what_recovery_leaves_if_it_is_cut_short() -> None:
    cuts = 0
    for seed in range(10):
        for fuse in range(200):
            left = left_after_two_cuts(fuse, Random(seed))
            if left is None:
                break
            assert left == list(range(len(left))), f"power cut after {fuse} operations"
            cuts += 1
    assert cuts > 100
