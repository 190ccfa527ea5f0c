"""Questions that followers, consumers and timers ask of a log."""

from __future__ import annotations

from sexton.log.checkpoints import EpochStart
from sexton.log.config import LogConfig
from sexton.log.epochs import LeaderEpochs
from sexton.log.indexes import TimeEntry, TimeIndex
from sexton.log.memory_disk import MemoryDisk
from sexton.log.recovery import open_log
from tests.log_text import Writer

EPOCHS = LeaderEpochs([EpochStart(1, 10), EpochStart(3, 120), EpochStart(4, 500)])
UNKNOWN = EpochStart(-1, -1)


def test_an_epoch_ends_where_the_next_one_starts() -> None:
    assert EPOCHS.end_of(1, 640) == (1, 120)
    assert EPOCHS.end_of(3, 640) == (3, 500)
    assert EPOCHS.end_of(4, 640) == (4, 640)


def test_for_an_epoch_that_wrote_nothing_the_one_before_it_answers() -> None:
    assert EPOCHS.end_of(2, 640) == (1, 120)
    assert EPOCHS.end_of(0, 640) == (0, 10)  # all of it has been deleted
    assert EPOCHS.end_of(5, 640) == UNKNOWN
    assert EPOCHS.end_of(-1, 640) == UNKNOWN
    assert LeaderEpochs().end_of(1, 0) == UNKNOWN


def test_a_time_index_takes_only_later_times() -> None:
    index = TimeIndex()
    for entry in (TimeEntry(100, 5), TimeEntry(200, 9), TimeEntry(300, 20)):
        assert index.append(entry)
    assert index.append(TimeEntry(250, 30)) == b""
    assert len(index) == 3 and index[2] == TimeEntry(300, 20)


def test_a_silent_producer_is_forgotten_unless_its_transaction_is_open() -> None:
    log = open_log(MemoryDisk(), "t-0", LogConfig(), now_ms=1000).log
    writer = Writer()
    for line in ("~7 a=1", "@8 b=1"):
        log.append_as_leader(writer.batch(line), 0, 1000)
    assert log.producers.expire(1999, 1000) == []
    assert log.producers.expire(2000, 1000) == [7]
    assert list(log.producers.known) == [8]


def test_a_log_is_flushed_when_the_interval_has_passed_and_something_is_new() -> None:
    log = open_log(MemoryDisk(), "t-0", LogConfig(flush_ms=500), now_ms=1000).log
    assert not log.flush_if_due(2000)
    log.append_as_leader(Writer().batch("a=1"), 0, 1000)
    assert not log.flush_if_due(1499)
    assert log.flush_if_due(1500)
    assert log.recovery_point == log.end_offset == 1
