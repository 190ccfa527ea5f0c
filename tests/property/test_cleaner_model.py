"""Cleaning random logs, and pulling the plug in the middle of it.

Whatever a pass removes, a read_committed consumer that reads the whole log afterwards ends up with
the same value for every key. That holds after any number of passes, in any order with appends,
after a restart that has nothing but the batches to go by, and if the power fails at any single
operation on the disk while segments are swapped.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.log.cleanable import LogCleaning
from sexton.log.cleaner import CleanerOptions, clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from sexton.records.layout import BatchHeader
from tests.log_text import Writer, content, describe

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100, cleanup_policy="compact")
RETENTION_MS = 100
KEYS = "abc"

lines = st.one_of(
    st.builds("{}={}".format, st.sampled_from(KEYS), st.integers(0, 99)),
    st.builds("-{}".format, st.sampled_from(KEYS)),
    st.builds("a={} b={} c={}".format, *[st.integers(0, 99)] * 3),
    st.builds("@{} {}={}".format, st.sampled_from("78"), st.sampled_from(KEYS), st.integers(0, 99)),
    st.builds("@{} -{}".format, st.sampled_from("78"), st.sampled_from(KEYS)),
    st.builds("@{} {}".format, st.sampled_from("78"), st.sampled_from(["commit", "abort"])),
)
steps = st.lists(st.one_of(lines, lines, lines, st.sampled_from(["clean", "later", "restart"])))


def view(log: PartitionLog) -> dict[str, str]:
    """What a consumer that reads up to the last stable offset, read_committed, ends up with."""
    aborted = log.aborted_between(0, log.last_stable_offset)
    values: dict[str, str] = {}
    for batch in content(log):
        header = BatchHeader.unpack(batch)
        if header.base_offset >= log.last_stable_offset or header.is_control:
            continue
        if header.is_transactional and any(
            entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset < entry.last_offset
            for entry in aborted
        ):
            continue
        for item in describe(batch).split()[1:]:
            key, _, value = item.partition("=")
            if item.startswith("-"):
                values.pop(item[1:], None)
            elif value:
                values[key] = value
    return values


class World:
    def __init__(self, independent: bool) -> None:
        self.independent = independent
        self.disk = MemoryDisk()
        self.now_ms = 1000
        self.writer = Writer()
        self.log = self._open()

    def _open(self, high_watermark: int = 0) -> PartitionLog:
        return open_log(
            self.disk, "t-0", CONFIG, now_ms=self.now_ms, high_watermark=high_watermark
        ).log

    def append(self, line: str) -> None:
        self.writer.timestamp = self.now_ms
        from_client = not line.endswith(("commit", "abort"))
        batch = self.writer.batch(line)
        self.log.append_as_leader(batch, 0, self.now_ms, from_client=from_client)
        self.log.advance_high_watermark(self.log.end_offset)

    def bounds(self) -> Bounds:
        end = min(self.log.last_stable_offset, self.log.active.base_offset)
        if self.independent:
            return Bounds.independent(self.now_ms, end)
        return Bounds.coordinated(self.now_ms, end, mtro=end, mxro=end)

    def clean(self) -> None:
        self.log.roll(self.now_ms)
        clean(self.log, self.bounds(), CleanerOptions(RETENTION_MS, set_bytes=512))

    def restart(self) -> None:
        high_watermark = self.log.high_watermark
        self.log.close(self.now_ms)
        for name in self.disk.names("t-0"):
            if name.endswith(".snapshot"):
                self.disk.remove(f"t-0/{name}")
        self.log = self._open(high_watermark)
        self.writer = Writer()
        for producer in self.log.producers.known.values():
            key = (producer.producer_id, producer.epoch)
            self.writer._next_sequence[key] = producer.last_sequence + 1


@settings(max_examples=150)
@given(steps, st.booleans())
def test_cleaning_never_changes_what_a_consumer_ends_up_with(
    moves: list[str], independent: bool
) -> None:
    world = World(independent)
    for move in moves:
        before, stable = view(world.log), world.log.last_stable_offset
        match move:
            case "clean":
                world.clean()
            case "later":
                world.now_ms += RETENTION_MS
            case "restart":
                world.restart()
            case line:
                world.append(line)
                continue
        world.log.check()
        assert view(world.log) == before
        assert world.log.last_stable_offset == stable


class _PowerCut(Exception):
    pass


class FailingDisk(MemoryDisk):
    """Fails at one operation on names, and ever after."""

    left: int | None = None

    def _change(self, change: Any) -> None:
        self._count()
        super()._change(change)

    def sync_directory(self, path: str) -> None:
        self._count()
        super().sync_directory(path)

    def _count(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise _PowerCut
            self.left -= 1


STORY = [
    "a=1", "b=1", "@7 a=2", "@7 abort", "-b", "@8 c=1", "@8 commit", "a=3", "b=2", "c=4", "-c",
    "a=5", "b=6", "-a", "a=7", "b=8",
]  # fmt: skip


def _dirty_world() -> World:
    world = World(independent=False)
    world.disk = FailingDisk()
    world.log = world._open()
    for number, line in enumerate(STORY):
        world.append(line)
        if number % 3 == 2:
            world.log.roll(world.now_ms)  # small segments: several are cleaned into one
    world.log.roll(world.now_ms)
    world.log.flush(world.now_ms)
    return world


def assert_found_by_offset(log: PartitionLog) -> None:
    """Every offset leads to the batch that a reading from the start finds: the indexes fit."""
    batches = content(log)
    for offset in range(log.log_start_offset, log.end_offset):
        expected = [b for b in batches if BatchHeader.unpack(b).last_offset >= offset]
        piece = log.read(offset, 1).slice
        assert (piece.read() if piece else b"") == (expected[0] if expected else b"")


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_at_any_moment_of_a_pass_loses_nothing(seed: int) -> None:
    cut_short = finished = 0
    for operations in range(0, 120, 2 if seed % 2 else 3):
        world = _dirty_world()
        expected, stable = view(world.log), world.log.last_stable_offset
        high_watermark, recovery_point = world.log.high_watermark, world.log.recovery_point
        assert isinstance(world.disk, FailingDisk)
        world.disk.left = operations
        try:
            world.clean()
        except _PowerCut:
            cut_short += 1
        disk = world.disk.crash(Random(seed))
        log = open_log(
            disk,
            "t-0",
            CONFIG,
            now_ms=world.now_ms,
            recovery_point=recovery_point,
            high_watermark=high_watermark,
        ).log
        log.check()
        assert view(log) == expected
        assert log.last_stable_offset == stable
        assert_found_by_offset(log)
        assert not [n for n in disk.names("t-0") if n.endswith((".cleaned", ".swap", ".deleted"))]
        finished += world.disk.left > 0
    assert cut_short > 20
    assert finished > 2


def test_a_quiet_log_is_picked_again_until_nothing_is_left_to_remove() -> None:
    world = World(independent=False)
    for line in ["a=1", "@7 b=1", "-a", "@7 commit", "c=1"]:
        world.append(line)
    world.log.roll(world.now_ms)
    cleaning, reasons = LogCleaning(), []
    everything = 1 << 62
    options = CleanerOptions(RETENTION_MS)
    for _ in range(20):
        found = cleaning.candidate(world.log, world.now_ms, everything, everything)
        if found is None:
            world.now_ms += RETENTION_MS
            continue
        reasons.append(found.reason)
        cleaning.attempt(world.log, found, options, world.now_ms, everything, everything)
    assert reasons == ["dirty", "waiting", "waiting"]
    assert [describe(batch) for batch in content(world.log)] == ["1 ~7 b=1", "4 c=1"]


@pytest.mark.parametrize(("byte", "why"), [(70, "out of order"), (100, "checksum")])
def test_a_log_that_cannot_be_cleaned_says_why_and_is_tried_again_later(
    byte: int, why: str
) -> None:
    world = World(independent=False)
    for line in STORY:
        world.append(line)
    world.log.roll(world.now_ms)
    cleaning, everything = LogCleaning(), 1 << 62
    found = cleaning.candidate(world.log, world.now_ms, everything, everything)
    assert found is not None
    path = world.log.segments[0].path(".log")
    world.disk.flip(path, byte)
    options = CleanerOptions(RETENTION_MS)
    assert cleaning.attempt(world.log, found, options, world.now_ms, 0, 0) is None
    assert cleaning.uncleanable is not None
    assert why in cleaning.uncleanable
    assert cleaning.candidate(world.log, world.now_ms, everything, everything) is None
    world.disk.flip(path, byte)
    later = world.now_ms + 15_000
    again = cleaning.candidate(world.log, later, everything, everything)
    assert again is not None
    assert cleaning.attempt(world.log, again, options, later, 0, 0) is not None
    assert cleaning.uncleanable is None
