"""Cleaning may take all that a leader has written; where its term began has to stay known.

Otherwise a follower that wrote something else there, as a leader that nobody had heard, would not
be told to cut it, and would bring it back.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from sexton.log.checkpoints import EpochStart
from sexton.log.cleaner import CleanerOptions, clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.epochs import LeaderEpochs
from sexton.log.memory_disk import MemoryDisk
from sexton.log.names import EPOCHS
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from tests.log_text import Writer

CONFIG = LogConfig(cleanup_policy="compact")
NOW_MS = 1_000
TERMS = [EpochStart(0, 0), EpochStart(1, 10), EpochStart(2, 15)]


def cleaned_log() -> PartitionLog:
    """Nothing is left of epoch 1, nor of the first record of epoch 2."""
    log = open_log(MemoryDisk(), "t-0", CONFIG, now_ms=NOW_MS).log
    writer = Writer()
    for epoch, keys in enumerate(([f"a{n}" for n in range(10)], ["hot"] * 5, ["hot", "z", "hot"])):
        log.begin_epoch(epoch)
        for key in keys:
            log.append_as_leader(writer.batch(f"{key}=1"), epoch, NOW_MS)
    log.roll(NOW_MS)
    log.append_as_leader(writer.batch("end=1"), 2, NOW_MS)
    log.flush(NOW_MS)
    log.advance_high_watermark(log.end_offset)
    clean(log, Bounds.coordinated(NOW_MS, log.active.base_offset, 0, 0), CleanerOptions())
    left = [header.base_offset for _segment, _position, header in log.batches(10)]
    assert left == [16, 17, 18]
    assert log.epochs.entries == TERMS
    return log


def copied(leader: PartitionLog, config: LogConfig, noted: list[EpochStart]) -> PartitionLog:
    copy = open_log(MemoryDisk(), "t-0", config, now_ms=NOW_MS).log
    while copy.end_offset < leader.end_offset:
        piece = leader.read(copy.end_offset, 100).slice
        assert piece is not None
        copy.append_as_follower(piece.read(), NOW_MS, noted)
    return copy


def test_a_copy_knows_what_its_leader_has_noted() -> None:
    """Or a consumer that has read to the end of a term would be told that this was cut off."""
    leader = cleaned_log()
    assert copied(leader, CONFIG, leader.epochs.entries).epochs.entries == TERMS
    # Of what it cannot be, nothing is believed.
    odd = [EpochStart(0, 5), EpochStart(2, 17), EpochStart(3, 18)]
    assert copied(leader, CONFIG, odd).epochs.entries == [EpochStart(0, 0), EpochStart(2, 10)]


def test_as_apache_kafka_notes_it_who_wrote_something_else_is_not_cut() -> None:
    """The negative control, and what `independent` is there to show."""
    kafkas = replace(CONFIG, compaction_policy="independent")
    copy = copied(cleaned_log(), kafkas, [])
    assert copy.epochs.entries == [EpochStart(0, 0), EpochStart(2, 16)]


def test_otherwise_a_term_begins_where_the_batch_before_it_ends() -> None:
    copy = copied(cleaned_log(), CONFIG, [])
    # Epoch 0 ended at 10. Of epoch 1 the copy knows nothing: who wrote in it cuts down to there.
    assert copy.epochs.end_of(0, copy.end_offset) == (0, 10)
    assert copy.epochs.end_of(1, copy.end_offset) == (0, 10)
    assert copy.epochs.end_of(2, copy.end_offset) == (2, 19)


@pytest.mark.parametrize("lost", ["an index", "the recovery point"])
def test_the_file_of_terms_counts_after_a_crash(lost: str) -> None:
    log = cleaned_log()
    assert isinstance(log.disk, MemoryDisk)
    disk = log.disk.crash(Random(1))
    if lost == "an index":
        disk.remove("t-0/00000000000000000000.index")
    point = 0 if lost == "the recovery point" else log.recovery_point
    opened = open_log(disk, "t-0", CONFIG, now_ms=NOW_MS, recovery_point=point)
    assert opened.log.epochs.entries == TERMS


@pytest.mark.parametrize("clean_end", [True, False])
def test_without_the_file_batches_tell_and_nobody_keeps_too_much(clean_end: bool) -> None:
    log = cleaned_log()
    log.close(NOW_MS)
    log.disk.remove(f"t-0/{EPOCHS}")
    opened = open_log(log.disk, "t-0", CONFIG, now_ms=NOW_MS, clean=clean_end)
    assert opened.log.epochs.entries == [EpochStart(0, 0), EpochStart(2, 10)]


def test_what_the_file_has_of_terms_that_are_gone_does_not_count() -> None:
    told = LeaderEpochs([EpochStart(0, 0), EpochStart(2, 10)])
    told.remember([EpochStart(0, 0), EpochStart(1, 12), EpochStart(3, 20)])
    assert told.entries == [EpochStart(0, 0), EpochStart(2, 10)]  # 3 wrote nothing that is left
