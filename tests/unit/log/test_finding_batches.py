"""From an offset to its batch, by the index and a few hops."""

from __future__ import annotations

import pytest

from sexton.base.errors import CorruptLog
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.reading import segments_from
from sexton.log.recovery import open_log
from tests.log_text import Writer, at_offset


def log_of(count: int, options: dict[str, int] | None = None) -> PartitionLog:
    """Batches of one to three records, with every fifth offset missing as after cleaning."""
    log = open_log(MemoryDisk(), "t-0", LogConfig().with_options(options or {}), now_ms=0).log
    writer, offset = Writer(), 0
    for number in range(count):
        batch = writer.batch(" ".join(["a=1", "b=2", "c=3"][: 1 + number % 3]))
        log.append_as_follower(at_offset(batch, offset), 0)
        offset = log.end_offset + (number % 5 == 0)
    log.advance_high_watermark(log.end_offset)
    return log


@pytest.mark.parametrize("interval", [0, 300, 4096, 1 << 20])
def test_every_offset_leads_to_the_first_batch_that_ends_at_or_after_it(interval: int) -> None:
    segment = log_of(300, {"index.interval.bytes": interval}).active
    batches = list(segment.headers())
    for offset in range(segment.end_offset + 2):
        expected = next((b for b in batches if b[1].last_offset >= offset), None)
        assert segment.find(offset) == expected
        for start, _header in batches[:: 1 + offset % 7]:
            if expected is not None and start <= expected[0]:
                assert segment.find(offset, start) == expected


def test_offsets_lead_to_their_segments() -> None:
    log = log_of(300, {"segment.bytes": 700})
    assert len(log.segments) > 30
    for offset in range(log.end_offset):
        plain = [s for s in log.segments if s.base_offset <= offset][-1:]
        assert next(segments_from(log.segments, offset)) is plain[0]
    assert list(segments_from(log.segments, 0)) == log.segments


@pytest.mark.parametrize(
    ("byte", "value", "why"),
    [
        (16, 3, "magic byte is 3"),
        (8, 0x80, "batch length"),
        (0, 0x80, "negative base offset"),
        (23, 0x80, "negative last offset delta"),
        (57, 0x80, "negative record count"),
    ],
)
def test_a_damaged_header_on_the_way_is_named(byte: int, value: int, why: str) -> None:
    log = log_of(10)
    segment = log.active
    position, header = list(segment.headers())[4]
    data = segment.log.read_at(0, segment.size)
    segment.log.truncate(0)
    place = position + byte
    segment.log.append(data[:place] + bytes([value]) + data[place + 1 :])
    with pytest.raises(CorruptLog, match=why) as caught:
        log.read(header.last_offset + 1, 1)
    assert caught.value.subject == f"t-0/00000000000000000000.log at byte {position}"


def test_a_file_cut_within_a_header_is_named() -> None:
    log = log_of(10)
    segment = log.active
    segment.log.append(bytes(30))
    size = segment.size
    with pytest.raises(CorruptLog, match="30 bytes left") as caught:
        segment.find(segment.end_offset)
    assert caught.value.subject.endswith(f"at byte {size - 30}")
