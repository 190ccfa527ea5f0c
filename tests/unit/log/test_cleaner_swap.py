"""Preparing a pass and putting it in place are two steps; what may happen between them."""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from sexton.log.cleaner import CleanerOptions, Pass, Prepared, begin, clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.disk import Disk, DiskFailed
from sexton.log.indexes import parse_aborted
from sexton.log.memory_disk import MemoryDisk
from sexton.log.names import OFFSET_INDEX, SWAP, TIME_INDEX, TRANSACTION_INDEX
from sexton.log.partition import PartitionLog
from sexton.log.real_disk import RealDisk
from sexton.log.recovery import open_log
from sexton.log.workshop import Workshop
from tests.log_text import Writer, content, describe

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, cleanup_policy="compact,delete")
OPTIONS = CleanerOptions(delete_retention_ms=1000)


def dirty_log(disk: Disk) -> PartitionLog:
    """Segments of three batches; the same three keys again and again."""
    log = open_log(disk, "t-0", CONFIG, now_ms=1000).log
    append(log, 30)
    log.roll(1000)
    return log


def append(log: PartitionLog, count: int) -> None:
    writer = Writer()
    for number in range(log.end_offset, log.end_offset + count):
        log.append_as_leader(writer.batch(f"{'abc'[number % 3]}={number}"), 0, 1000)
        log.advance_high_watermark(log.end_offset)


def begun(log: PartitionLog) -> Pass:
    return begin(log, Bounds.independent(2000, log.active.base_offset), OPTIONS)


def prepared(log: PartitionLog) -> Prepared:
    made = begun(log).prepare()
    assert made is not None
    return made


def lines(log: PartitionLog) -> list[str]:
    return [describe(batch) for batch in content(log)]


def litter(log: PartitionLog) -> list[str]:
    return [n for n in log.disk.names("t-0") if n.endswith((".cleaned", ".swap"))]


def reopened(disk: Disk, log: PartitionLog) -> PartitionLog:
    return open_log(
        disk,
        "t-0",
        CONFIG,
        now_ms=1000,
        recovery_point=log.recovery_point,
        high_watermark=log.high_watermark,
    ).log


def test_preparing_changes_nothing_and_swapping_everything() -> None:
    log = dirty_log(MemoryDisk())
    before = lines(log)
    made = prepared(log)
    assert lines(log) == before
    assert litter(log)
    assert made.swap(2000)
    assert lines(log) == ["27 a=27", "28 b=28", "29 c=29"]
    assert litter(log) == []
    log.check()


def test_records_that_come_meanwhile_are_there_afterwards() -> None:
    log = dirty_log(MemoryDisk())
    made = prepared(log)
    append(log, 5)
    assert made.swap(2000)
    assert lines(log) == ["27 a=27", "28 b=28", "29 c=29"] + [
        f"{n} {'abc'[n % 3]}={n}" for n in range(30, 35)
    ]
    log.check()
    assert lines(reopened(log.disk, log)) == lines(log)


def test_a_pass_in_another_thread_does_not_disturb_appends(tmp_path: Path) -> None:
    log = dirty_log(RealDisk(tmp_path))
    made: list[Prepared | None] = []
    worker = threading.Thread(target=lambda run: made.append(run.prepare()), args=(begun(log),))
    worker.start()
    while worker.is_alive():
        append(log, 1)
    worker.join()
    append(log, 1)
    end = log.end_offset
    assert made[0] is not None and made[0].swap(2000)
    offsets = [int(line.split()[0]) for line in lines(log)]
    assert offsets == [27, 28, 29, *range(30, end)]
    log.check()


def truncated(log: PartitionLog) -> None:
    log.truncate_to(20, 1000)


def truncated_at_the_end(log: PartitionLog) -> None:
    """Only records that no pass looks at; but they may have been a producer's last ones."""
    append(log, 1)
    log.truncate_to(log.end_offset - 1, 1000)


def emptied(log: PartitionLog) -> None:
    log.truncate_fully(100, 1000)


def shortened(log: PartitionLog) -> None:
    """By retention: the first segments are gone."""
    assert log.delete_records(7) == 7
    assert log.enforce_retention(1000)


def closed(log: PartitionLog) -> None:
    log.close(1000)


@pytest.mark.parametrize("change", [truncated, truncated_at_the_end, emptied, shortened, closed])
def test_a_log_that_was_changed_meanwhile_is_left_alone(
    change: Callable[[PartitionLog], None],
) -> None:
    log = dirty_log(MemoryDisk())
    made = prepared(log)
    change(log)
    before = lines(log)
    assert not made.swap(2000)
    assert lines(log) == before
    assert not log.being_cleaned
    if log.closed:
        log = reopened(log.disk, log)  # removes what was prepared
    assert litter(log) == []
    assert lines(log) == before
    log.check()
    end = min(log.last_stable_offset, log.active.base_offset)
    clean(log, Bounds.independent(2000, end), OPTIONS)
    log.check()


def test_a_closed_log_may_be_cleaned_by_its_next_owner_meanwhile() -> None:
    log = dirty_log(MemoryDisk())
    stale = prepared(log)
    log.close(1000)
    next_log = reopened(log.disk, log)
    fresh = prepared(next_log)
    stale.discard()
    assert not stale.swap(2000)
    assert fresh.swap(2000)
    assert lines(next_log) == ["27 a=27", "28 b=28", "29 c=29"]


def test_what_a_pass_of_an_earlier_life_leaves_is_not_taken_for_ones_own() -> None:
    """A broker that was killed and started again in the same process: nothing was closed."""
    disk = MemoryDisk()
    log = dirty_log(disk)
    for line in ("@7 a=30", "@7 abort"):
        log.append_as_leader(Writer().batch(line), 0, 1000, from_client=False)
    log.advance_high_watermark(log.end_offset)
    log.roll(1000)
    run = begun(log)
    next_log = reopened(disk, log)
    assert run.prepare() is not None  # and nobody takes it
    assert litter(next_log)
    assert prepared(next_log).swap(2000)
    assert any(segment.aborted for segment in next_log.segments)
    for segment in next_log.segments[:-1]:
        assert disk.read(segment.path(OFFSET_INDEX)) == segment.offsets.pack()
        assert disk.read(segment.path(TIME_INDEX)) == segment.times.pack()
        where = segment.path(TRANSACTION_INDEX)
        found = parse_aborted(disk.read(where), where) if disk.exists(where) else []
        assert found == segment.aborted


@pytest.mark.parametrize("change", [truncated, emptied, shortened, closed])
def test_a_pass_over_a_log_that_was_changed_since_it_began_has_no_result(
    change: Callable[[PartitionLog], None],
) -> None:
    log = dirty_log(MemoryDisk())
    run = begun(log)
    change(log)
    assert run.prepare() is None
    assert not log.being_cleaned
    assert litter(log if not log.closed else reopened(log.disk, log)) == []


def test_discarding_removes_what_was_prepared() -> None:
    log = dirty_log(MemoryDisk())
    before = lines(log)
    made = prepared(log)
    made.discard()
    assert litter(log) == []
    assert lines(log) == before
    made.discard()  # harmless a second time
    assert prepared(log).swap(2000)


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_between_the_steps_leaves_the_log_as_it_was(seed: int) -> None:
    log = dirty_log(MemoryDisk())
    log.flush(1000)
    before = lines(log)
    prepared(log)
    assert isinstance(log.disk, MemoryDisk)
    after = reopened(log.disk.crash(Random(seed)), log)
    assert litter(after) == []
    assert lines(after) == before


def test_an_index_that_was_renamed_before_its_log_is_not_taken_for_the_old_ones() -> None:
    log = dirty_log(MemoryDisk())
    log.flush(1000)
    before = lines(log)
    for suffix, entry in ((".index", struct.pack(">ii", 1, 7)), (".timeindex", bytes(12))):
        log.disk.open(f"t-0/{0:020d}{suffix}.swap").append(entry)
    log.disk.open(f"t-0/{0:020d}.log.cleaned").append(b"a cleaned log")
    after = reopened(log.disk, log)
    assert litter(after) == []
    assert lines(after) == before
    for offset in range(after.end_offset):
        piece = after.read(offset, 1).slice
        assert piece is not None
        assert describe(piece.read()) == before[offset]


class PowerCut(Exception):
    pass


class DiesRemoving(MemoryDisk):
    """The power fails right after an old file of the first segment was removed, durably."""

    armed = False

    def remove(self, path: str) -> None:
        super().remove(path)
        if self.armed and path.startswith(f"t-0/{0:020d}") and not path.endswith(".snapshot"):
            self.sync_directory("t-0")
            raise PowerCut


def test_a_transaction_index_does_not_outlive_its_log() -> None:
    """The second pass finds no aborted data any more: the cleaned segment has no such index."""
    disk = DiesRemoving()
    log = open_log(disk, "t-0", CONFIG, now_ms=1000).log
    writer = Writer()
    for line in ("@7 a=1", "@7 abort", "@7 b=1", "@7 commit", "a=2"):
        log.append_as_leader(writer.batch(line), 0, 1000, from_client=False)
    log.advance_high_watermark(log.end_offset)
    log.roll(1000)
    assert prepared(log).swap(2000)
    assert log.segments[0].aborted
    second = prepared(log)
    disk.armed = True
    with pytest.raises(PowerCut):
        second.swap(2000)
    after = reopened(disk.crash(Random(1)), log)
    assert after.segments[0].aborted == []
    assert lines(after) == ["1 @7 abort (until 3000)", "2 @7 b=1", "3 @7 commit", "4 a=2"]


class FailsRemoving(MemoryDisk):
    armed = False

    def remove(self, path: str) -> None:
        if self.armed and path.endswith(".log"):
            raise OSError(errno.EIO, "input/output error")
        super().remove(path)


def test_nobody_goes_on_with_a_log_whose_segments_were_half_swapped() -> None:
    """The cleaned segment counts after the next start, whatever the log has become until then."""
    disk = FailsRemoving()
    log = dirty_log(disk)
    made = prepared(log)
    disk.armed = True
    with pytest.raises(DiskFailed):
        made.swap(2000)
    assert any(name.endswith(".log.swap") for name in disk.names("t-0"))


def test_a_full_disk_is_told_and_leaves_nothing_behind() -> None:
    disk = MemoryDisk()
    log = dirty_log(disk)
    disk.room_bytes = 10
    with pytest.raises(OSError, match="no space"):
        begun(log).prepare()
    assert litter(log) == []
    disk.room_bytes = None
    assert prepared(log).swap(2000)


def test_memory_is_used_again_from_pass_to_pass() -> None:
    shop = Workshop()
    for _ in range(3):
        log = dirty_log(MemoryDisk())
        clean(log, Bounds.independent(2000, log.active.base_offset), OPTIONS, shop)
        assert lines(log) == ["27 a=27", "28 b=28", "29 c=29"]
    assert len(shop.blocks) == 1


def test_a_power_cut_while_a_swap_is_completed_leaves_no_index_of_the_segment_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is a committed record taken for an aborted one by it."""

    class PowerCut(Exception):
        pass

    disk = MemoryDisk()
    log = open_log(disk, "t-0", CONFIG, now_ms=1000).log
    writer = Writer()
    for line in ("@7 a=1", "@7 abort", "@7 b=1", "@7 commit"):
        log.append_as_leader(writer.batch(line), 0, 1000, from_client=False)
    log.roll(1000)
    log.append_as_leader(writer.batch("end=1"), 0, 1000)
    log.advance_high_watermark(log.end_offset)
    log.flush(1000)
    assert log.segments[0].aborted
    made = begin(log, Bounds.independent(2000, log.active.base_offset), OPTIONS).prepare()
    assert made is not None
    ((_old, fresh),) = made.ready
    fresh.rename(SWAP)
    disk.sync_directory("t-0")
    again = disk.crash(Random(0))
    remove = MemoryDisk.remove

    def removed(self: MemoryDisk, path: str) -> None:
        remove(self, path)
        if path.endswith("00.log"):
            self.sync_directory("t-0")
            raise PowerCut

    monkeypatch.setattr(MemoryDisk, "remove", removed)
    with pytest.raises(PowerCut):
        open_log(again, "t-0", CONFIG, now_ms=1000, recovery_point=log.recovery_point)
    names = again.crash(Random(0)).names("t-0")
    assert "00000000000000000000.log.swap" in names
    assert "00000000000000000000.txnindex" not in names
