"""What an emptied marker is kept for: its producer's epoch, which is known after a restart as well.

From transaction version 2 on a marker begins an epoch. Cleaning empties it when nothing is left of
its transaction, and leaves it as long as it is the last that the producer has written. The leader
that has only read the batch again has to refuse whom the marker fenced, as the one before it did.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sexton.base.errors import Refused
from sexton.log.cleaner import clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.cleaner_report import CleanerOptions
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from tests.log_text import Writer, at_offset, content, describe

CONFIG = LogConfig(cleanup_policy="compact")
LONG_AFTER_MS = 200_000_000  # past delete.retention.ms


def crashed(log: PartitionLog) -> PartitionLog:
    """With a high watermark from before its snapshots, which cannot be used then."""
    again = open_log(log.disk, "t-0", CONFIG, now_ms=LONG_AFTER_MS, high_watermark=0).log
    again.advance_high_watermark(again.end_offset)
    return again


def cut(log: PartitionLog) -> PartitionLog:
    log.truncate_to(log.end_offset - 1, LONG_AFTER_MS)
    return log


def copied(log: PartitionLog) -> PartitionLog:
    """As by a follower that comes after the cleaning."""
    other = open_log(MemoryDisk(), "t-0", CONFIG, now_ms=LONG_AFTER_MS).log
    for batch in content(log):
        other.append_as_follower(batch, LONG_AFTER_MS)
    return other


def cleaned() -> PartitionLog:
    """Producer 7 wrote `k` in epoch 1, and its transaction of nothing was ended by epoch 2."""
    log = open_log(MemoryDisk(), "t-0", CONFIG, now_ms=1000).log
    writer = Writer()
    for line in ("~7/1 k=1", "@7/1 j=1", "@7/2 abort", "a=1", "b=1", "c=1", "d=1"):
        log.append_as_leader(writer.batch(line), 0, 1000, from_client=False)
        log.roll(1000)
    log.advance_high_watermark(log.end_offset)
    for now_ms in (2000, 3000, LONG_AFTER_MS):
        clean(log, Bounds.independent(now_ms, 6), CleanerOptions())
    assert [describe(batch) for batch in content(log)][:2] == ["0 ~7/1 k=1", "2 @7/2 (empty)"]
    return log


@pytest.mark.parametrize("again", [crashed, cut, copied])
def test_who_was_fenced_stays_fenced(again: Callable[[PartitionLog], PartitionLog]) -> None:
    log = cleaned()
    assert log.producers.known[7].epoch == 2
    log = again(log)
    (known,) = log.producers.known.values()
    assert (known.epoch, known.last_sequence, known.last_timestamp) == (2, -1, 1000)
    with pytest.raises(Refused, match="epoch 1, the latest is 2"):
        log.append_as_leader(Writer().batch("~7/1 #2 k=2"), 0, LONG_AFTER_MS)
    log.append_as_leader(Writer().batch("~7/2 k=3"), 0, LONG_AFTER_MS)


def test_a_producer_of_whom_nothing_else_is_left_may_go_on_with_any_sequence() -> None:
    """It may have written in this very epoch, in segments that retention has removed."""
    log = open_log(MemoryDisk(), "t-0", CONFIG, now_ms=LONG_AFTER_MS).log
    log.append_as_follower(content(cleaned())[1], LONG_AFTER_MS)
    assert log.producers.known == {}
    log.append_as_leader(Writer().batch("~7/2 #5 k=3"), 0, LONG_AFTER_MS)


def test_a_transaction_whose_marker_was_missed_is_not_one_of_the_next_epoch() -> None:
    """The coordinator is asked about what the producer sends next, and ends both."""
    log = open_log(MemoryDisk(), "t-0", CONFIG, now_ms=LONG_AFTER_MS).log
    log.append_as_follower(at_offset(Writer().batch("@7/1 j=1"), 1), LONG_AFTER_MS)
    log.append_as_follower(content(cleaned())[1], LONG_AFTER_MS)
    assert (log.producers.known[7].epoch, log.producers.open_transactions()) == (1, [(1, 7)])
