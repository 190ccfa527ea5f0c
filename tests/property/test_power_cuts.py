"""The power goes in the middle of whatever a log is doing, and perhaps again while it is opened.

What is left is one stretch of what the log held, without a hole. It begins where the log began, or
where it was about to begin; it ends no earlier than what had been synced and was to stay.
"""

from __future__ import annotations

from random import Random

import pytest

from sexton.log.config import LogConfig
from sexton.log.incoming import stamp
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from sexton.log.segment import Segment
from sexton.records.layout import BatchHeader
from sexton.sim.fused_disk import FusedDisk, PowerCut
from tests.log_text import Writer, content

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=60, segment_ms=50, retention_ms=200)
LINES = ["a=1", "b=2 c=3", "-a", "@7 a=1", "@8 b=1", "@7 commit", "@7 abort", "@8 abort"]
DEEDS = ["flush", "roll", "tick", "replicate", "truncate", "delete", "retain", "empty", "close"]


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = FusedDisk()
        self.now_ms = 1000
        self.accepted: list[bytes] = []
        self.gone: list[bytes] = []  # before them: removed, though perhaps not durably
        self.synced = 0  # how many of the accepted ones must survive
        self.latest_start = 0  # after a cut the log begins here, or earlier
        self.recovery_point = self.high_watermark = 0
        self.log = self.opened(clean=False)

    def opened(self, clean: bool) -> PartitionLog:
        log = open_log(
            self.disk, "t-0", CONFIG, now_ms=self.now_ms, clean=clean,
            recovery_point=self.recovery_point, high_watermark=self.high_watermark,
        ).log  # fmt: skip
        self.high_watermark = log.high_watermark
        self.recovery_point = log.recovery_point
        return log

    # ── what it does; what a cut may leave is said before each deed ──

    def append(self) -> None:
        writer = Writer(timestamp=self.now_ms)
        for producer in self.log.producers.known.values():
            key = (producer.producer_id, producer.epoch)
            writer._next_sequence[key] = producer.last_sequence + 1
        batch = bytearray(writer.batch(self.random.choice(LINES)))
        stamp(batch, self.log.end_offset, 0)
        self.accepted.append(bytes(batch))
        self.log.append_as_leader(batch, 0, self.now_ms, from_client=False)

    def flush(self) -> None:
        self.log.flush(self.now_ms)
        self.synced, self.recovery_point = len(self.accepted), self.log.recovery_point

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def tick(self) -> None:
        self.now_ms += self.random.randint(1, 60)

    def replicate(self) -> None:
        self.log.advance_high_watermark(self.random.randint(0, self.log.end_offset))
        self.high_watermark = self.log.high_watermark

    def truncate(self) -> None:
        target = self.random.randint(self.log.high_watermark, self.log.end_offset)
        left = [b for b in self.accepted if BatchHeader.unpack(b).last_offset < target]
        self.synced = min(self.synced, len(left))
        self.log.truncate_to(target, self.now_ms)
        self.accepted = left
        self.recovery_point = min(self.recovery_point, self.log.recovery_point)

    def delete(self) -> None:
        start = self.random.randint(0, self.log.high_watermark)
        self.latest_start = max(self.latest_start, start)
        self.log.delete_records(start)

    def retain(self) -> None:
        self.latest_start = max(self.latest_start, self.log.high_watermark)
        self.log.enforce_retention(self.now_ms)
        base = self.log.segments[0].base_offset
        count = sum(BatchHeader.unpack(b).last_offset < base for b in self.accepted)
        self.gone += self.accepted[:count]
        self.accepted = self.accepted[count:]
        self.synced = max(self.synced - count, 0)
        self.latest_start = self.log.log_start_offset

    def empty(self) -> None:
        if self.random.random() < 0.3:  # not too often
            self.synced = 0
            self.log.truncate_fully(0, self.now_ms)
            self.accepted, self.gone, self.latest_start = [], [], 0
            self.recovery_point = self.high_watermark = 0

    def close(self) -> None:
        self.log.close(self.now_ms)
        self.synced, self.recovery_point = len(self.accepted), self.log.recovery_point
        self.log = self.opened(clean=True)

    # ── a cut ──

    def step(self, deed: str, fuse: int | None) -> bool:
        """Was it cut?"""
        self.disk.fuse = fuse
        try:
            getattr(self, deed)()
        except PowerCut:
            self._start_again()
            return True
        finally:
            self.disk.fuse = None
        self.log.check()
        assert content(self.log) == self.accepted
        return False

    def _start_again(self) -> None:
        while True:
            self.disk = self.disk.crashed(self.random)
            self.disk.fuse = self.random.randint(0, 30) if self.random.random() < 0.4 else None
            try:
                self.log = self.opened(clean=False)
            except PowerCut:
                continue
            break
        self.disk.fuse = None
        self.log.check()
        self._compare(content(self.log))
        self.latest_start = self.log.log_start_offset

    def _compare(self, left: list[bytes]) -> None:
        possible = self.gone + self.accepted
        first = possible.index(left[0]) if left else 0
        assert left == possible[first : first + len(left)], "there is a hole"
        if left:
            begins = BatchHeader.unpack(left[0]).base_offset
            assert first == 0 or begins <= self.latest_start, "its beginning is lost"
            assert first + len(left) >= len(self.gone) + self.synced, "what was synced is lost"
        elif self.synced:
            end = BatchHeader.unpack(self.accepted[self.synced - 1]).next_offset
            assert end <= self.latest_start, "all is lost"
        self.accepted, self.gone, self.synced = left, [], len(left)


def cuts_in(seed: int) -> dict[str, int]:
    world, cuts = World(seed), dict.fromkeys(["append", *DEEDS], 0)
    for _ in range(60):
        deed = world.random.choice(DEEDS) if world.random.random() < 0.5 else "append"
        operations = world.random.randint(0, world.random.choice((1, 5, 25)))
        fuse = operations if world.random.random() < 0.15 else None
        cuts[deed] += world.step(deed, fuse)
    return cuts


def test_what_is_left_is_one_stretch_of_what_was_there() -> None:
    cuts = [cuts_in(seed) for seed in range(120)]
    rare = [deed for deed in cuts[0] if sum(each[deed] for each in cuts) < 2]
    assert rare == ["tick", "replicate"], "which write nothing"


def test_a_log_that_goes_from_its_beginning_would_be_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remove = PartitionLog._remove

    def from_the_oldest(log: PartitionLog, segments: list[Segment]) -> None:
        remove(log, sorted(segments, key=lambda segment: segment.base_offset))

    monkeypatch.setattr(PartitionLog, "_remove", from_the_oldest)
    assert any(map(ends_badly, range(1000)))


def ends_badly(seed: int) -> bool:
    try:
        cuts_in(seed)
    except AssertionError:
        return True
    return False
