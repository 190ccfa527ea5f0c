"""Retention and cleaning share a log: what one has emptied must not hold up the other."""

from __future__ import annotations

from contextlib import suppress

from sexton.base.errors import Refused
from sexton.log.checkpoints import pack_epochs
from sexton.log.cleaner import CleanerOptions, clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.names import TIME_INDEX, segment_file
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from tests.log_text import Writer

WRITTEN_MS, LONG_AFTER_MS = 1000, 1_000_000
CONFIG = LogConfig(segment_bytes=400, retention_ms=60_000, cleanup_policy="compact,delete")


def cleaned_log(config: LogConfig = CONFIG) -> PartitionLog:
    """The first segments are empty, since the last one has all their keys again."""
    log = open_log(MemoryDisk(), "t-0", config, now_ms=WRITTEN_MS).log
    writer = Writer(timestamp=WRITTEN_MS)
    for number in range(15):
        log.append_as_leader(writer.batch(f"{'abc'[number % 3]}={number}"), 0, WRITTEN_MS)
    log.advance_high_watermark(log.end_offset)
    log.roll(WRITTEN_MS)
    bounds = Bounds.independent(WRITTEN_MS, log.active.base_offset)
    clean(log, bounds, CleanerOptions(delete_retention_ms=1000))
    sizes = [segment.size for segment in log.segments]
    assert sizes[:2] == [0, 0] and any(sizes), sizes
    return log


def reopened(log: PartitionLog, now_ms: int) -> PartitionLog:
    log.close(now_ms)
    return open_log(
        log.disk,
        "t-0",
        log.config,
        now_ms=now_ms,
        clean=True,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
    ).log


def test_what_is_too_old_goes_although_cleaning_has_emptied_what_is_before_it() -> None:
    log = cleaned_log()
    log.enforce_retention(LONG_AFTER_MS)
    assert (log.log_start_offset, log.size) == (15, 0)
    log.check()


def test_an_emptied_segment_is_not_young_because_the_broker_has_just_started() -> None:
    log = reopened(cleaned_log(), LONG_AFTER_MS)
    log.enforce_retention(LONG_AFTER_MS)
    assert (log.log_start_offset, log.size) == (15, 0)


def test_what_is_too_much_goes_with_the_emptied_segments_before_it() -> None:
    by_size = LogConfig(segment_bytes=400, retention_bytes=0, cleanup_policy="compact,delete")
    log = cleaned_log(by_size)
    log.enforce_retention(WRITTEN_MS)
    assert (log.log_start_offset, log.size) == (15, 0)


def test_emptied_segments_stay_as_long_as_what_follows_them() -> None:
    """Otherwise the log would begin later, and a group that stands there would lose its place."""
    log = cleaned_log()
    assert log.enforce_retention(WRITTEN_MS) == []
    assert log.log_start_offset == 0


def test_emptied_segments_below_the_log_start_go_whatever_the_policy() -> None:
    log = cleaned_log(LogConfig(segment_bytes=400, cleanup_policy="compact"))
    bases = [segment.base_offset for segment in log.segments]
    log.delete_records(bases[2])
    gone = log.enforce_retention(WRITTEN_MS)
    assert [segment.base_offset for segment in gone] == bases[:2]
    assert log.log_start_offset == bases[2]


def test_an_emptied_segment_does_not_go_before_it_is_replicated() -> None:
    log = cleaned_log()
    log.high_watermark = 0
    assert log.enforce_retention(LONG_AFTER_MS) == []


def test_a_segment_is_not_old_because_its_time_index_is_lost() -> None:
    config = LogConfig(retention_ms=60_000, index_interval_bytes=0)
    log = open_log(MemoryDisk(), "t-0", config, now_ms=WRITTEN_MS).log
    for timestamp in (LONG_AFTER_MS, WRITTEN_MS, WRITTEN_MS):
        log.append_as_leader(Writer(timestamp).batch("a=1"), 0, WRITTEN_MS)
    log.advance_high_watermark(log.end_offset)
    log.close(WRITTEN_MS)
    log.disk.remove(f"t-0/{segment_file(0, TIME_INDEX)}")
    opened = open_log(
        log.disk, "t-0", config, now_ms=LONG_AFTER_MS, clean=True, high_watermark=3
    ).log
    assert opened.enforce_retention(LONG_AFTER_MS) == []


def test_on_a_full_disk_old_segments_make_room_for_the_new_one() -> None:
    log = cleaned_log()
    assert isinstance(log.disk, MemoryDisk)
    segments = len(log.segments)
    log.append_as_leader(Writer(timestamp=WRITTEN_MS).batch("d=1"), 0, WRITTEN_MS)
    log.advance_high_watermark(log.end_offset)
    log.disk.room_bytes = 0
    with suppress(OSError, Refused):
        log.enforce_retention(LONG_AFTER_MS)
    assert len(log.segments) < segments
    log.check()


def test_epochs_that_went_on_a_full_disk_are_gone_once_there_is_room() -> None:
    """Where a term began that the log does not hold any more is nobody's to be told."""
    log = cleaned_log()
    assert isinstance(log.disk, MemoryDisk)
    for epoch in (1, 2):
        batch = Writer(timestamp=WRITTEN_MS).batch("d=1")
        log.append_as_leader(batch, epoch, WRITTEN_MS)
        log.roll(WRITTEN_MS)
    log.advance_high_watermark(log.end_offset)
    log.disk.room_bytes = 0
    with suppress(OSError, Refused):
        log.enforce_retention(LONG_AFTER_MS)
    log.disk.room_bytes = None
    log.flush(LONG_AFTER_MS)
    assert log.disk.read("t-0/leader-epoch-checkpoint") == pack_epochs(log.epochs.entries)
