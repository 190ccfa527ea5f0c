"""A power cut right after a leader's term began does not take what is known of the terms before."""

from __future__ import annotations

from random import Random

import pytest

from sexton.base.errors import CorruptLog
from sexton.log.checkpoints import EpochStart, pack_epochs, parse_epochs
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.names import EPOCHS
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from tests.log_text import Writer

TERMS = [EpochStart(1, 0), EpochStart(2, 3), EpochStart(4, 6)]


def log_of_three_terms() -> PartitionLog:
    """A segment for each, all synced."""
    log = open_log(MemoryDisk(), "t-0", LogConfig(), now_ms=1000).log
    for epoch, _start in TERMS:
        log.begin_epoch(epoch)
        for _ in range(3):
            log.append_as_leader(Writer().batch("a=1"), epoch, 1000)
        log.roll(1000)
    log.flush(1000)
    assert log.epochs.entries == TERMS
    return log


def test_where_earlier_terms_ended_is_known_whatever_a_power_cut_leaves() -> None:
    found: set[str] = set()
    for seed in range(100):
        log = log_of_three_terms()
        log.begin_epoch(5)
        assert isinstance(log.disk, MemoryDisk)
        disk = log.disk.crash(Random(seed))
        opened = open_log(
            disk, "t-0", LogConfig(), now_ms=1000, recovery_point=log.recovery_point
        )  # fmt: skip
        assert opened.log.epochs.entries == TERMS
        assert parse_epochs(disk.read(f"t-0/{EPOCHS}"), EPOCHS) == TERMS
        found.update(finding.code for finding in opened.findings)
    assert found == {"epochs-lost"}  # sometimes, else this proves nothing


def test_a_file_of_terms_that_was_lost_while_nobody_looked_is_made_again() -> None:
    log = log_of_three_terms()
    log.close(1000)
    log.disk.remove(f"t-0/{EPOCHS}")
    opened = open_log(log.disk, "t-0", LogConfig(), now_ms=1000, clean=True)
    assert opened.log.epochs.entries == TERMS
    assert parse_epochs(log.disk.read(f"t-0/{EPOCHS}"), EPOCHS) == TERMS


def test_half_a_number_is_not_taken_for_one() -> None:
    whole = pack_epochs([EpochStart(4, 9), EpochStart(5, 12)])
    with pytest.raises(CorruptLog, match="within a line"):
        parse_epochs(whole[:-2], EPOCHS)
