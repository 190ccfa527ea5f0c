"""What a log once knew of its producers does not count for the batches that it has now."""

from __future__ import annotations

import pytest

from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.names import SNAPSHOT
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from tests.log_text import Writer

CONFIG = LogConfig(retention_ms=10_000)
LONG_AFTER_MS = 1_000_000


def opened(log: PartitionLog, *, clean: bool, high_watermark: int) -> PartitionLog:
    return open_log(
        log.disk, "t-0", CONFIG, now_ms=1000, clean=clean, high_watermark=high_watermark,
        recovery_point=log.recovery_point,
    ).log  # fmt: skip


def append(log: PartitionLog, *lines: str) -> None:
    writer = Writer()
    for line in lines:
        log.append_as_leader(writer.batch(line), 0, 1000, from_client=False)
    log.advance_high_watermark(log.end_offset)


def snapshots(log: PartitionLog) -> list[int]:
    names = log.disk.names("t-0")
    return [int(name.removesuffix(SNAPSHOT)) for name in names if name.endswith(SNAPSHOT)]


def closed_within_a_transaction() -> PartitionLog:
    """Producer 8 has one open since offset 1, and a snapshot at 2 says so."""
    log = open_log(MemoryDisk(), "t-0", CONFIG, now_ms=1000).log
    append(log, "a=1", "@8 b=1")
    log.close(1000)
    log = opened(log, clean=True, high_watermark=2)
    assert (log.last_stable_offset, snapshots(log)) == (1, [2])
    return log


def test_an_emptied_log_has_no_transaction_open() -> None:
    """So is a follower's that was away until all that it had was deleted elsewhere."""
    log = closed_within_a_transaction()
    log.truncate_fully(500, 2000)
    append(log, "c=1")
    assert (log.last_stable_offset, snapshots(log)) == (501, [])


def test_a_transaction_whose_marker_was_deleted_is_not_open_after_a_crash() -> None:
    """The last known high watermark may be of before the records that were deleted since."""
    log = closed_within_a_transaction()
    append(log, "@8 commit")
    log.roll(1000)
    log.enforce_retention(LONG_AFTER_MS)
    append(log, "c=1")
    assert log.log_start_offset == 3
    log = opened(log, clean=False, high_watermark=2)
    log.advance_high_watermark(log.end_offset)
    assert log.last_stable_offset == log.end_offset == 4


def test_snapshots_of_earlier_lives_do_not_pile_up() -> None:
    log = closed_within_a_transaction()
    for line in ("c=1", "d=1", "@8 commit"):
        append(log, line)
        log.close(1000)
        log = opened(log, clean=True, high_watermark=log.end_offset)
    assert snapshots(log) == [log.end_offset]


def test_nobody_waits_for_the_disk_when_a_log_is_opened_after_a_clean_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker opens thousands of them."""
    log = closed_within_a_transaction()
    append(log, "c=1")
    log.close(1000)
    synced: list[str] = []
    monkeypatch.setattr(MemoryDisk, "sync_directory", lambda _self, path: synced.append(path))
    log = opened(log, clean=True, high_watermark=log.end_offset)
    assert (snapshots(log), synced) == ([3], [])
