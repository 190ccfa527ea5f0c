"""A power cut takes the end of a log, never a piece out of its middle."""

from __future__ import annotations

from random import Random

from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.recovery import open_log
from sexton.records.few import few_batch

CONFIG = LogConfig(segment_bytes=200)


def offsets_after_a_cut(random: Random) -> list[int]:
    disk = MemoryDisk()
    disk.make_directory("orders-0")
    log = open_log(disk, "orders-0", CONFIG, now_ms=0, clean=True).log
    for number in range(random.randint(3, 9)):
        log.append_as_leader(few_batch([(b"k", b"%d" % number)], number), 0, number)
    log = open_log(disk.crash(random), "orders-0", CONFIG, now_ms=99, clean=False).log
    found = [header.base_offset for _, _, header in log.batches(0)]
    assert log.end_offset == len(found), "it goes on where its records end"
    return found


def test_what_is_left_begins_at_the_start_and_has_no_hole() -> None:
    left = [offsets_after_a_cut(Random(seed)) for seed in range(400)]
    assert all(found == list(range(len(found))) for found in left)
    assert len({len(found) for found in left}) > 3, "cuts that take nothing prove nothing"
