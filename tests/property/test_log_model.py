"""A partition's log against the simplest thing that could be right: a list of batches.

Whatever the order of appends, rolls, flushes, truncations, full disks and power cuts, the log holds
a prefix of the batches it accepted that is at least as long as what it had flushed, and everything
it knows beside its bytes (indexes, producers, epochs, aborted transactions) is what a plain reading
of those batches says.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.base.errors import Refused
from sexton.log.config import LogConfig
from sexton.log.epochs import LeaderEpochs
from sexton.log.indexes import AbortedTransaction
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.producers import Producers
from sexton.log.recovery import open_log
from sexton.records.control import first_control_record
from sexton.records.layout import BatchHeader
from tests.log_text import Writer, batches_of, content

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, segment_ms=50)

LINES = ["a=1", "b=2 c=3", "-a", "@7 a=1", "@8 b=1", "@7 commit", "@7 abort", "@8 abort", "~9 d=1"]
operations = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(LINES)),
    st.tuples(st.just("append"), st.sampled_from(LINES)),
    st.tuples(st.just("append"), st.sampled_from(LINES)),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("roll"), st.none()),
    st.tuples(st.just("new_epoch"), st.none()),
    st.tuples(st.just("tick"), st.integers(1, 40)),
    st.tuples(st.just("replicate"), st.sampled_from([0.1, 0.3, 0.6, 1.0])),
    st.tuples(st.just("truncate"), st.sampled_from([0.0, 0.5, 0.9])),
    st.tuples(st.just("full"), st.integers(0, 300)),
    st.tuples(st.just("close"), st.none()),
    st.tuples(st.just("crash"), st.integers(0, 1 << 16)),
)


class World:
    """The log and, beside it, the batches that it has accepted."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.now_ms = 1000
        self.epoch = 0
        self.writer = Writer()
        self.accepted: list[bytes] = []
        self.synced = 0  # how many of them a power cut must not touch
        self.recovery_point = self.high_watermark = 0
        self.log: PartitionLog
        self._open(clean=False)

    def _open(self, clean: bool) -> None:
        self.log = open_log(
            self.disk,
            "t-0",
            CONFIG,
            now_ms=self.now_ms,
            clean=clean,
            recovery_point=self.recovery_point,
            high_watermark=self.high_watermark,
        ).log

    def append(self, line: str) -> None:
        self.writer.timestamp = self.now_ms
        batch = self.writer.batch(line)
        before = self.log.end_offset
        try:
            self.log.append_as_leader(
                batch, self.epoch, self.now_ms, from_client="comm" not in line and "ab" not in line
            )
        except Refused:
            self.disk.room_bytes = None  # only a full disk refuses these lines
            assert self.log.end_offset == before
            self._forget_sequences()
            return
        self.accepted.append(content(self.log)[-1])

    def _forget_sequences(self) -> None:
        """Producers start again, as real ones do when they do not know what was written."""
        self.writer = Writer()
        for producer in self.log.producers.known.values():
            key = (producer.producer_id, producer.epoch)
            self.writer._next_sequence[key] = producer.last_sequence + 1

    def flush(self, _: None) -> None:
        try:
            self.log.flush(self.now_ms)
        except Refused:
            self.disk.room_bytes = None
            self.log.flush(self.now_ms)
        self.synced = len(self.accepted)
        self.recovery_point = self.log.recovery_point  # as the checkpoint file would say

    def roll(self, _: None) -> None:
        self.disk.room_bytes = None
        self.log.roll(self.now_ms)

    def new_epoch(self, _: None) -> None:
        self.epoch += 1

    def tick(self, by: int) -> None:
        self.now_ms += by

    def replicate(self, share: float) -> None:
        self.log.advance_high_watermark(int(share * self.log.end_offset))
        self.high_watermark = self.log.high_watermark

    def truncate(self, share: float) -> None:
        self.disk.room_bytes = None
        target = self.log.high_watermark + int(
            share * (self.log.end_offset - self.log.high_watermark)
        )
        self.log.truncate_to(target, self.now_ms)
        self.accepted = [b for b in self.accepted if BatchHeader.unpack(b).last_offset < target]
        self.synced = min(self.synced, len(self.accepted))
        self.recovery_point = min(self.recovery_point, self.log.recovery_point)
        self.high_watermark = self.log.high_watermark
        self._forget_sequences()

    def full(self, room: int) -> None:
        self.disk.room_bytes = room

    def close(self, _: None) -> None:
        self.disk.room_bytes = None
        self.log.close(self.now_ms)
        self.synced = len(self.accepted)
        self.recovery_point = self.log.recovery_point
        self._open(clean=True)

    def crash(self, seed: int) -> None:
        self.disk = self.disk.crash(Random(seed))
        self.disk.room_bytes = None
        self._open(clean=False)
        left = content(self.log)
        assert left == self.accepted[: len(left)], "a power cut may only shorten a log"
        assert len(left) >= self.synced, "what was flushed must survive"
        self.accepted = left
        self.high_watermark = self.log.high_watermark
        self._forget_sequences()

    def check(self) -> None:
        self.log.check()
        assert content(self.log) == self.accepted
        producers, epochs, aborted = plain_reading(self.accepted)
        assert self.log.producers.to_snapshot() == producers.to_snapshot()
        assert self.log.epochs.entries == epochs.entries
        assert [e for s in self.log.segments for e in s.aborted] == aborted
        producers.high_watermark_reached(self.log.high_watermark)
        assert self.log.producers.first_unstable_offset() == producers.first_unstable_offset()
        self._check_time_indexes()
        for offset in range(self.log.log_start_offset, self.log.end_offset):
            expected = [b for b in self.accepted if BatchHeader.unpack(b).last_offset >= offset]
            piece = self.log.read(offset, 1).slice
            assert piece is not None
            assert next(batches_of(piece.read())) == expected[0]

    def _check_time_indexes(self) -> None:
        headers = [BatchHeader.unpack(batch) for batch in self.accepted]
        for segment in self.log.segments:
            inside = [
                h for h in headers if segment.base_offset <= h.base_offset < segment.end_offset
            ]
            for entry in (segment.times[row] for row in range(len(segment.times))):
                last = segment.base_offset + entry.offset
                times = [h.max_timestamp for h in inside if h.last_offset <= last]
                assert max(times) == entry.timestamp


def plain_reading(
    batches: list[bytes],
) -> tuple[Producers, LeaderEpochs, list[AbortedTransaction]]:
    producers, epochs, aborted = Producers(), LeaderEpochs(), []
    for batch in batches:
        header = BatchHeader.unpack(batch)
        marker = first_control_record(batch, "model") if header.is_control else None
        epochs.assign(header.partition_leader_epoch, header.base_offset)
        ended = producers.apply(header, marker)
        if ended is not None and ended.aborted:
            aborted.append(producers.aborted_entry(ended))
    return producers, epochs, aborted


@settings(max_examples=400)
@given(st.lists(operations, min_size=20, max_size=60))
def test_a_log_holds_what_it_accepted_and_a_power_cut_only_shortens_it(
    steps: list[tuple[str, Any]],
) -> None:
    world = World()
    for name, argument in steps:
        getattr(world, name)(argument)
        world.check()


@settings(max_examples=5)
@given(st.integers(0, 1 << 30))
def test_a_log_without_fsync_would_be_caught(seed: int) -> None:
    """The negative control: a disk that only pretends to sync loses flushed batches."""
    lost = 0
    for attempt in range(20):
        world = World()
        for line in LINES[:3] * 3:
            world.append(line)
        world.flush(None)
        for inode in world.disk._names.values():
            inode.synced_size = 0  # the lie
        try:
            world.crash(seed + attempt)
        except AssertionError:
            lost += 1
    assert lost > 0
