"""A log opened on a damaged segment is put right, and stays right when it is opened again."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.recovery import Opened, open_log
from sexton.records.decoder import scan
from tests.handmade import batch, record
from tests.kafka_data import DATA
from tests.mutations import damaged, forged

CONFIG = LogConfig(index_interval_bytes=1)
SEGMENTS = [
    (int(path.stem), path.read_bytes())
    for path in sorted(DATA.rglob("*.log"))
    if 0 < path.stat().st_size < 5000
]


def opened(disk: MemoryDisk, *, clean: bool = False) -> Opened:
    return open_log(disk, "t-0", CONFIG, now_ms=1, clean=clean)


def disk_with(base_offset: int, data: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("t-0")
    disk.open(f"t-0/{base_offset:020d}.log").append(data)
    return disk


@settings(max_examples=settings().max_examples * 5)
@given(st.integers(0, 2**64 - 1), st.sampled_from(SEGMENTS), st.sampled_from([damaged, forged]))
def test_whatever_is_left_is_a_sound_prefix(
    seed: int, segment: tuple[int, bytes], change: object
) -> None:
    assert callable(change)
    base_offset, sound = segment
    data = change(Random(seed), sound)
    disk = disk_with(base_offset, data)
    first = opened(disk)
    first.log.check()
    kept = first.log.size
    left = disk.read(f"t-0/{base_offset:020d}.log")
    assert left == data[:kept]
    assert scan(left).fault is None
    assert bool(first.findings) == (kept < len(data))
    end = first.log.end_offset
    first.log.advance_high_watermark(end)
    first.log.read(base_offset, 1 << 20, committed=True)
    first.log.close(2)
    for clean in (True, False):
        again = opened(disk, clean=clean)
        assert (again.findings, again.log.end_offset, again.log.size) == ([], end, kept)


def test_an_offset_that_no_index_can_hold_is_where_the_log_is_cut() -> None:
    good = batch(record()) + batch(record(), base_offset=1)
    flipped = batch(record(), base_offset=2 | 1 << 40)  # no checksum covers the base offset
    disk = disk_with(0, good + flipped)
    log = opened(disk)
    (finding,) = log.findings
    assert finding.code == "torn-tail"
    assert "offset 1099511627778 is too far from the first of its segment" in finding.message
    assert (log.log.end_offset, log.log.size) == (2, len(good))
