"""A pass must not take a producer's last committed batch for one that may yet be cut off.

Otherwise a replica that is cut at the high watermark does not know the producer any more, and takes
what it sends again for something new.
"""

from __future__ import annotations

import pytest

from sexton.log.cleanable import LogCleaning
from sexton.log.cleaner import CleanerOptions, clean
from sexton.log.cleaner_bounds import Bounds, LastBatches
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.names import LOG, SNAPSHOT
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from tests.log_text import Writer

NOW_MS = 1_000


def log_with_a_tail(policy: str, *tail: str) -> PartitionLog:
    """What producer 7 has written is superseded by others; the tail is above the high watermark."""
    config = LogConfig(cleanup_policy="compact", compaction_policy=policy)
    log = open_log(MemoryDisk(), "t-0", config, now_ms=NOW_MS).log
    writer = Writer()
    for line in ("~7 a=1", "~7 a=2", "a=3", "b=1"):
        log.append_as_leader(writer.batch(line), 0, NOW_MS)
    log.roll(NOW_MS)
    log.append_as_leader(writer.batch("c=1"), 0, NOW_MS)
    log.advance_high_watermark(log.end_offset)
    for line in tail:
        log.append_as_leader(writer.batch(line), 0, NOW_MS)
    return log


def cleaned(log: PartitionLog) -> list[int]:
    """Offsets of batches that are left below the tail."""
    end, bounds = log.active.base_offset, Bounds.independent(NOW_MS, log.active.base_offset)
    if log.config.compaction_policy == "coordinated":
        bounds = Bounds.coordinated(NOW_MS, end, 0, 0)
    clean(log, bounds, CleanerOptions())
    return [header.base_offset for _segment, _position, header in log.batches(0, end)]


def cut(log: PartitionLog) -> None:
    """At the high watermark, and by the log alone: a snapshot is not always there."""
    for name in log.disk.names("t-0"):
        if name.endswith(SNAPSHOT):
            log.disk.remove(f"t-0/{name}")
    log.truncate_to(log.high_watermark, NOW_MS)


@pytest.mark.parametrize("batches", [1, 6], ids=["remembered", "more than are remembered"])
def test_whoever_is_cut_at_the_high_watermark_knows_the_producer_as_before(batches: int) -> None:
    log = log_with_a_tail("coordinated")
    before = log.producers.known[7].last_sequence
    log = log_with_a_tail("coordinated", *["~7 d=1"] * batches)
    assert cleaned(log) == [1, 2, 3]
    cut(log)
    assert log.producers.known[7].last_sequence == before == 1


def test_it_goes_once_the_later_one_is_committed() -> None:
    log = log_with_a_tail("coordinated", "~7 d=1")
    assert cleaned(log) == [1, 2, 3]
    log.advance_high_watermark(log.end_offset)
    assert cleaned(log) == [2, 3]


def test_apache_kafkas_way_is_to_forget_it() -> None:
    """The negative control, and what `independent` is there to show."""
    log = log_with_a_tail("independent", "~7 d=1")
    assert cleaned(log) == [2, 3]
    cut(log)
    assert 7 not in log.producers.known


def test_no_pass_is_begun_for_what_has_to_stay() -> None:
    log = log_with_a_tail("coordinated", "~7 d=1")
    cleaning = LogCleaning()
    candidate = cleaning.candidate(log, NOW_MS, 0, 0)
    assert candidate is not None
    cleaning.attempt(log, candidate, CleanerOptions(), NOW_MS, 0, 0)
    assert cleaning.candidate(log, NOW_MS, 0, 0) is None
    log.advance_high_watermark(log.end_offset)
    assert cleaning.candidate(log, NOW_MS, 0, 0) is not None


def test_a_tail_that_cannot_be_read_is_taken_for_anybodys() -> None:
    log = log_with_a_tail("coordinated", "~7 d=1", "e=1")
    path = log.active.path(LOG)
    data = bytearray(log.disk.read(path))
    data[8:12] = b"\xff" * 4  # the length of its first batch
    log.disk.remove(path)
    log.disk.open(path).append(bytes(data))
    log.active.log = log.disk.open(path)
    assert LastBatches.of(log).unsettled == {7}
