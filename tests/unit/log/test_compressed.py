"""What a producer has compressed is refused if no consumer could read it, and only then."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.log.compressed import plain_records
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from sexton.records.codecs import deflate
from sexton.records.few import few_batch
from sexton.records.layout import CRC_START, HEADER_BYTES, BatchHeader, Codec

CODECS = [codec for codec in Codec if codec != Codec.NONE]
# Records of a few bytes and of so many that a length takes one, two or three.
VALUES = st.lists(st.sampled_from([None, b"", b"v", b"v" * 60, b"v" * 9_000]), min_size=1)


def batch_of(section: bytes, count: int, codec: Codec) -> bytes:
    """A batch whose checksum is right, whatever is in it."""
    plain = bytearray(few_batch([(b"k", b"v")], 1_000)[:HEADER_BYTES])
    struct.pack_into(">i", plain, 8, HEADER_BYTES - 12 + len(section))
    struct.pack_into(">h", plain, 21, codec)
    struct.pack_into(">i", plain, 23, count - 1)
    struct.pack_into(">i", plain, 57, count)
    batch = plain + section
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def records_of(values: list[bytes | None]) -> bytes:
    return few_batch([(b"k", value) for value in values], 1_000)[HEADER_BYTES:]


def topic(cleanup_policy: str = "delete") -> PartitionLog:
    config = LogConfig(cleanup_policy=cleanup_policy)
    return open_log(MemoryDisk(), "t-0", config, now_ms=0, clean=True).log


THREE = records_of([b"a", b"b", b"c"])
BAD = {
    "not compressed at all": (b"these are no records", 1),
    "fewer than claimed": (None, 4),
    "more than claimed": (None, 2),
}


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@given(values=VALUES)
def test_sound_records_are_taken(codec: Codec, values: list[bytes | None]) -> None:
    plain = records_of(values)
    batch = batch_of(deflate(codec, plain), len(values), codec)
    assert plain_records(batch, BatchHeader.unpack(batch), "t-0") == plain


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("what", BAD)
def test_a_log_refuses_what_nobody_could_read(codec: Codec, what: str) -> None:
    section, count = BAD[what]
    log = topic()
    with pytest.raises(Refused) as caught:
        log.append_as_leader(batch_of(section or deflate(codec, THREE), count, codec), 0, 0)
    assert caught.value.error is KafkaError.INVALID_RECORD
    assert log.end_offset == 0
    log.append_as_leader(batch_of(deflate(codec, THREE), 3, codec), 0, 0)
    assert log.end_offset == 3


@pytest.mark.parametrize(
    "plain",
    [
        b"\x01",  # a length of -1
        b"\xff\xff\xff\xff\xff\xff",  # one that does not end
        b"\x0a" + bytes(5),  # five bytes are no record
        THREE[:-1],
    ],
)
def test_lengths_that_lead_nowhere_are_noticed(plain: bytes) -> None:
    batch = batch_of(deflate(Codec.LZ4, plain), 3 if plain == THREE[:-1] else 1, Codec.LZ4)
    with pytest.raises(CorruptLog):
        plain_records(batch, BatchHeader.unpack(batch), "t-0")


def test_a_compacted_topic_still_wants_keys() -> None:
    keyless = few_batch([(b"k", b"v"), (None, b"v")], 1_000)[HEADER_BYTES:]
    batch = batch_of(deflate(Codec.ZSTD, keyless), 2, Codec.ZSTD)
    with pytest.raises(Refused, match="record 1 of the batch has no key"):
        topic("compact").append_as_leader(batch, 0, 0)
    assert topic().append_as_leader(batch, 0, 0).last_offset == 1
