"""A record is up for compaction in time, however little is written after it."""

from __future__ import annotations

from sexton.log.cleanable import LogCleaning
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.recovery import open_log
from tests.log_text import Writer


def first_cleaned(config: LogConfig) -> int:
    """How much a pass would look at, two seconds after the first record."""
    log = open_log(MemoryDisk(), "t-0", config, now_ms=1000).log
    for timestamp in (1000, 3000):
        log.append_as_leader(Writer(timestamp).batch("a=1"), 0, timestamp)
    log.advance_high_watermark(log.end_offset)
    found = LogCleaning().candidate(log, 3000, 0, 0)
    return 0 if found is None else found.end


def test_a_segment_is_not_written_to_for_longer_than_a_record_may_wait() -> None:
    assert first_cleaned(LogConfig(cleanup_policy="compact", max_compaction_lag_ms=1000)) == 1
    assert first_cleaned(LogConfig(cleanup_policy="compact")) == 0


def test_where_nothing_is_compacted_segments_are_written_to_for_as_long_as_they_may_be() -> None:
    log = open_log(MemoryDisk(), "t-0", LogConfig(max_compaction_lag_ms=1000), now_ms=1000).log
    for timestamp in (1000, 3000):
        log.append_as_leader(Writer(timestamp).batch("a=1"), 0, timestamp)
    assert len(log.segments) == 1
