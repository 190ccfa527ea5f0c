from __future__ import annotations

import struct

import pytest

from sexton.base.errors import CorruptLog
from sexton.records.layout import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MOST_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    header_fault,
    headers_in,
    read_header,
    sequence_after,
)
from tests.handmade import HEADER, batch, record

DISTINCT = BatchHeader(
    base_offset=0x0102030405060708,
    batch_length=0x11121314,
    partition_leader_epoch=0x21222324,
    magic=2,
    crc=0xF1F2F3F4,
    attributes=0x3132,
    last_offset_delta=0x41424344,
    base_timestamp=0x5152535455565758,
    max_timestamp=-2,
    producer_id=0x6162636465666768,
    producer_epoch=-3,
    base_sequence=0x71727374,
    records_count=0x01020304,
)


def test_a_header_is_sixty_one_bytes_in_kafkas_order() -> None:
    assert DISTINCT.pack() == bytes.fromhex(
        "0102030405060708 11121314 21222324 02 f1f2f3f4 3132 41424344"
        "5152535455565758 fffffffffffffffe 6162636465666768 fffd 71727374 01020304"
    )
    assert len(DISTINCT.pack()) == HEADER_BYTES


def test_a_header_comes_back_from_any_position() -> None:
    for padding in (0, 1, 7):
        assert BatchHeader.unpack(bytes(padding) + DISTINCT.pack(), padding) == DISTINCT


def test_fewer_bytes_than_a_header_cannot_be_unpacked() -> None:
    with pytest.raises(struct.error):
        BatchHeader.unpack(DISTINCT.pack()[:-1])


def test_a_header_knows_where_its_batch_ends() -> None:
    header = HEADER._replace(base_offset=100, last_offset_delta=4, batch_length=88)
    assert (header.size, header.last_offset, header.next_offset) == (100, 104, 105)


def test_every_attribute_bit_is_told_apart() -> None:
    plain = HEADER._replace(attributes=Codec.ZSTD)
    assert (plain.codec, plain.is_log_append_time, plain.is_transactional) == (4, False, False)
    assert (plain.is_control, plain.delete_horizon_ms, plain.has_producer) == (False, None, False)
    bits = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON
    full = HEADER._replace(attributes=bits, base_timestamp=77, producer_id=0)
    assert (full.codec, full.is_log_append_time, full.is_transactional) == (0, True, True)
    assert (full.is_control, full.delete_horizon_ms, full.has_producer) == (True, 77, True)


def test_sequences_start_again_at_zero_after_the_largest() -> None:
    assert sequence_after(2**31 - 1, 1) == 0
    assert sequence_after(2**31 - 2, 5) == 3
    assert sequence_after(0, -1) == 2**31 - 1
    wrapping = HEADER._replace(base_sequence=2**31 - 2, last_offset_delta=3)
    assert wrapping.last_sequence == 1


def test_a_batch_without_sequence_has_no_last_one() -> None:
    assert HEADER._replace(base_sequence=-1, last_offset_delta=9).last_sequence == -1


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"magic": 0}, "message format v0 (before Kafka 0.11) is not supported: only v2 is"),
        ({"magic": 1}, "message format v1 (before Kafka 0.11) is not supported: only v2 is"),
        ({"magic": 3}, "magic byte is 3, not 2: this is not a record batch"),
        ({"magic": -128}, "magic byte is -128, not 2: this is not a record batch"),
        ({"batch_length": 48}, "batch length 48 is less than the 49 of an empty batch"),
        ({"batch_length": -1}, "batch length -1 is less than the 49 of an empty batch"),
        ({"base_offset": -1}, "negative base offset -1"),
        ({"last_offset_delta": -5}, "negative last offset delta -5"),
        (
            {"base_offset": MOST_OFFSET, "last_offset_delta": 1},
            f"the last offset {MOST_OFFSET + 1} is beyond the largest, {MOST_OFFSET}",
        ),
        ({"records_count": -2}, "negative record count -2"),
    ],
)
def test_a_header_no_broker_writes_is_refused_in_words(wrong: dict[str, int], why: str) -> None:
    header = HEADER._replace(**{"batch_length": 49, **wrong})
    assert header_fault(header) == why
    with pytest.raises(CorruptLog) as error:
        read_header(header.pack(), 0, "a.log at byte 0")
    assert (error.value.subject, error.value.why) == ("a.log at byte 0", why)


def test_a_header_at_every_limit_is_sound() -> None:
    widest = HEADER._replace(
        batch_length=49, base_offset=MOST_OFFSET - 5, last_offset_delta=5, records_count=0
    )
    assert header_fault(widest) is None


def test_a_header_that_is_cut_is_refused_with_what_is_left() -> None:
    with pytest.raises(CorruptLog, match="x: 60 bytes left, a batch header has 61"):
        read_header(DISTINCT.pack()[:60], 0, "x")
    with pytest.raises(CorruptLog, match="x: 0 bytes left"):
        read_header(DISTINCT.pack(), 61, "x")


def test_batches_are_walked_one_after_the_other() -> None:
    data = batch(record()) + batch(record(), record(1), base_offset=1) + batch(base_offset=9)
    walked = list(headers_in(data, "x"))
    assert [header.base_offset for _, header in walked] == [0, 1, 9]
    assert [position for position, _ in walked] == [0, 70, 149]
    assert sum(header.size for _, header in walked) == len(data)


def test_a_torn_batch_ends_the_walk_with_its_position() -> None:
    data = batch(record()) + batch(record(), base_offset=1)
    with pytest.raises(CorruptLog) as error:
        list(headers_in(data[:-1], "x"))
    assert error.value.subject == "x at byte 70"
    assert error.value.why == "the batch has 70 bytes and only 69 are there"
