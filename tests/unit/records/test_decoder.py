from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sexton.base.errors import CorruptLog
from sexton.records.columns import Record
from sexton.records.decoder import BadBatch, Decoder, decode, scan
from sexton.records.layout import Codec, headers_in
from sexton.records.varints import put_varint
from tests.handmade import (
    HEADER,
    NO_HEADERS,
    batch,
    field,
    framed,
    record,
    seal,
    split,
    with_codec,
)
from tests.kafka_data import KafkaLog, kafka_logs

GOOD = batch(record(), record(1))
T = 1_700_000_000_000


def bad_batches(data: bytes, **options: int) -> list[BadBatch]:
    return [bad for _, found in Decoder(**options).parts(scan(data)) for bad in found]


# ── scan ──


def test_scan_finds_every_whole_batch() -> None:
    data = GOOD + batch(base_offset=2) + batch(record(), base_offset=3)
    found = scan(data)
    assert (found.fault, found.torn, found.end) == (None, False, len(data))
    assert found.position.tolist() == [0, len(GOOD), len(GOOD) + 61]
    assert found.size.tolist() == [len(GOOD), 61, 70]


def test_scan_of_nothing_finds_nothing() -> None:
    found = scan(b"")
    assert (len(found), found.end, found.fault) == (0, 0, None)
    assert len(decode(b"")) == 0


@pytest.mark.parametrize(
    ("bad", "why", "torn"),
    [
        (GOOD[:60], "60 bytes left, a batch header has 61", True),
        (b"\0", "1 bytes left, a batch header has 61", True),
        (GOOD[:-1], f"the batch has {len(GOOD)} bytes and only {len(GOOD) - 1} are there", True),
        (
            batch(record(), batch_length=2**31 - 1),
            "the batch has 2147483659 bytes and only 70 are there",
            True,
        ),
        (
            batch(magic=0),
            "message format v0 (before Kafka 0.11) is not supported: only v2 is",
            False,
        ),
        (
            batch(magic=1),
            "message format v1 (before Kafka 0.11) is not supported: only v2 is",
            False,
        ),
        (batch(magic=99), "magic byte is 99, not 2: this is not a record batch", False),
        (
            batch(batch_length=48),
            "batch length 48 is less than the 49 of an empty batch",
            False,
        ),
        (
            batch(batch_length=-(2**31)),
            "batch length -2147483648 is less than the 49 of an empty batch",
            False,
        ),
        (batch(base_offset=-1), "negative base offset -1", False),
        (batch(last_offset_delta=-1), "negative last offset delta -1", False),
        (
            batch(base_offset=2**63 - 1),
            "the last offset 9223372036854775807 is beyond the largest, 9223372036854775806",
            False,
        ),
        (batch(records_count=-1), "negative record count -1", False),
        (batch(base_offset=-1, batch_length=999), "negative base offset -1", False),
    ],
)
def test_scan_stops_at_a_bad_header_and_says_why(bad: bytes, why: str, torn: bool) -> None:
    found = scan(GOOD + bad)
    assert (len(found), found.end) == (1, len(GOOD))
    assert (found.fault, found.torn) == (why, torn)
    with pytest.raises(CorruptLog) as error:
        decode(GOOD + bad, "a.log")
    assert (error.value.subject, error.value.why) == (f"a.log at byte {len(GOOD)}", why)


def test_old_message_formats_as_kafka_wrote_them_are_refused_by_name() -> None:
    # offset int64, size int32, crc uint32, magic int8, attributes int8, key, value
    v0 = bytes(8) + bytes.fromhex("00000010 00000000 00 00 ffffffff 00000000") + bytes(61)
    v1 = bytes(8) + bytes.fromhex("00000018 00000000 01 00") + bytes(8) + b"\xff" * 8 + bytes(61)
    for version, data in ((0, v0), (1, v1)):
        with pytest.raises(CorruptLog, match=rf"message format v{version} \(before Kafka 0.11\)"):
            decode(data)


def test_scan_finds_more_batches_than_it_first_has_room_for() -> None:
    data = b"".join(batch(base_offset=n) for n in range(10_000))
    found = scan(data)
    assert (len(found), found.fault) == (10_000, None)
    assert found.position.tolist() == list(range(0, len(data), 61))
    assert found.headers["base_offset"].tolist() == list(range(10_000))


def test_a_slice_of_batches_decodes_alone() -> None:
    data = b"".join(batch(record(), base_offset=n) for n in range(5))
    assert decode(scan(data).slice(2, 4)).offset.tolist() == [2, 3]


def test_any_kind_of_buffer_can_be_decoded() -> None:
    array = np.frombuffer(GOOD, np.uint8)
    for data in (GOOD, bytearray(GOOD), memoryview(GOOD), array):
        assert decode(data).offset.tolist() == [0, 1]


# ── what is in a record ──

EDGES = [
    Record(2**62, -(2**62), None, None, ()),
    Record(2**62 + 1, T, b"", b"", ()),
    Record(2**62 + 2**31 - 1, 2**62, b"k" * 300, b"v" * 70_000, (("a", None), ("", b""))),
]


def test_values_at_every_limit_come_out_whole() -> None:
    data = batch(
        record(timestamp_delta=-(2**62) - T, key=None, value=None),
        record(1, timestamp_delta=0, key=b"", value=b""),
        record(
            2**31 - 1,
            timestamp_delta=2**62 - T,
            key=b"k" * 300,
            value=b"v" * 70_000,
            headers=b"\x04\x02a\x01\x00\x00",
        ),
        base_offset=2**62,
        last_offset_delta=2**31 - 1,
    )
    assert list(decode(data).records()) == EDGES


def test_a_length_below_minus_one_is_null_as_in_kafka() -> None:
    body = b"\0\0\0" + put_varint(-7) + put_varint(-(2**31)) + NO_HEADERS
    columns = decode(batch(framed(body)))
    assert next(columns.records()) == Record(0, T, None, None, ())
    assert (columns.key.length.tolist(), columns.value.length.tolist()) == ([-1], [-1])


def test_varints_longer_than_needed_are_read_as_kafka_reads_them() -> None:
    body = b"\0" + b"\x80\x80\x00" + b"\x80\x00" + b"\x82\x80\x80\x80\x00k" + b"\x82\x00v" + b"\0"
    assert next(decode(batch(framed(body))).records()) == Record(0, T, b"k", b"v", ())


@pytest.mark.parametrize("size", range(48))
def test_a_batch_at_the_very_end_of_a_buffer_is_read_like_any_other(size: int) -> None:
    last = batch(record(value=b"v" * size), base_offset=2)
    columns = decode(GOOD + last)
    assert columns.value.to_list() == [b"v", b"v", b"v" * size]
    assert columns.key.to_list() == [b"k", b"k", b"k"]


@pytest.mark.parametrize("alignment", range(16))
def test_a_buffer_may_begin_at_any_address(alignment: int) -> None:
    data = b"".join(path.read_bytes() for log in kafka_logs("shapes") for path in log.segments)
    room = np.zeros(len(data) + 64, np.uint8)
    start = -room.ctypes.data % 16 + alignment
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    shifted = decode(room[start : start + len(data)])
    assert list(shifted.records()) == list(decode(data).records())


def test_a_checksum_need_not_be_checked_twice() -> None:
    wrong = batch(record(), crc=0)
    with pytest.raises(CorruptLog, match="the checksum does not match"):
        decode(wrong)
    assert decode(wrong, check_crc=False).key.to_list() == [b"k"]


# ── what may be wrong with a batch: each fault alone, and good batches on both sides ──

FIVE_BYTES_TOO_LARGE = b"\xfe\xff\xff\xff\x1f"  # 33 bits: Java would drop the top one
HEAD = b"\0\0\0"  # attributes, and both deltas 0
FAULTS: dict[str, tuple[list[bytes], dict[str, int], str]] = {
    "count too large": ([record()], {"records_count": 2**31 - 1}, "claims 2147483647 records"),
    "one record too few": ([record()], {"records_count": 2}, "claims 2 records, too many"),
    "record missing": ([record(value=b"long" * 9)], {"records_count": 2}, "length is wrong"),
    "bytes left": ([record(), record(1)], {"records_count": 1}, "left after the 1 records"),
    "bytes in an empty batch": ([record()], {"records_count": 0}, "left after the 0 records"),
    "record too short": ([framed(b"\0\0\0\x01\x01") + b"12"], {}, "a record's length is wrong"),
    "negative record length": ([put_varint(-8) + bytes(9)], {}, "a record's length is wrong"),
    "record too long": ([put_varint(1000) + bytes(9)], {}, "a record's length is wrong"),
    "record one byte too long": ([put_varint(9) + record()[1:]], {}, "a record's length is wrong"),
    "length without end": ([b"\xff" * 9], {}, "a record's length is wrong"),
    "length of 33 bits": ([FIVE_BYTES_TOO_LARGE + bytes(9)], {}, "a record's length is wrong"),
    "timestamp without end": ([framed(b"\0" + b"\xff" * 20)], {}, "a record's length is wrong"),
    "timestamp of 65 bits": (
        [framed(b"\0" + b"\xff" * 9 + b"\x02" + bytes(9))], {}, "a record's length is wrong",
    ),
    "offset without end": ([framed(b"\0\0" + b"\xff" * 9)], {}, "offsets do not increase"),
    "offset repeated": ([record(0), record(0)], {}, "offsets do not increase"),
    "offset going back": ([record(1), record(0)], {}, "offsets do not increase"),
    "offset negative": ([record(-1)], {}, "offsets do not increase"),
    "offset past the last": ([record(1)], {}, "offsets do not increase within the batch's range"),
    "key longer than record": ([framed(HEAD + put_varint(3) + b"k\0\0")], {}, "a key ends outside"),
    "key fills record": ([framed(HEAD + field(b"key"))], {}, "a key ends outside its record"),
    "key length without end": ([framed(HEAD + b"\xff" * 9)], {}, "a key ends outside its record"),
    "key length of 33 bits": (
        [framed(HEAD + FIVE_BYTES_TOO_LARGE + b"\0\0")], {}, "a key ends outside its record",
    ),
    "key length below 32 bits": (
        [framed(HEAD + b"\xff\xff\xff\xff\x1f" + b"\0\0")], {}, "a key ends outside its record",
    ),
    "value longer than record": (
        [framed(HEAD + field(b"k") + put_varint(3) + b"v\0")], {}, "a value ends outside",
    ),
    "value fills record": (
        [framed(HEAD + field(b"k") + field(b"v"))], {}, "a value ends outside its record",
    ),
    "value length without end": (
        [framed(HEAD + field(b"k") + b"\xff" * 9)], {}, "a value ends outside its record",
    ),
    "header count negative": ([record(headers=b"\x01")], {}, "headers of a record do not fill"),
    "header count too large": ([record(headers=b"\x7e\0\0")], {}, "headers of a record do not"),
    "header missing": ([record(headers=b"\x04\x00\x00")], {}, "headers of a record do not fill"),
    "header name null": ([record(headers=b"\x02\x01\x00")], {}, "headers of a record do not"),
    "header name null, and one after it": (
        [record(headers=b"\x04\x01\x02a\x01")], {}, "headers of a record do not",
    ),
    "header value far too long": (
        [record(headers=b"\x04\x02a" + put_varint(2**30) + b"\x02b\x00")], {}, "headers of a rec",
    ),
    "header name far too long": (
        [record(headers=b"\x04" + put_varint(2**30) + b"a\x00\x02b\x00")], {}, "headers of a rec",
    ),
    "header name too long": ([record(headers=b"\x02\x10a\x00")], {}, "headers of a record do"),
    "header value too long": ([record(headers=b"\x02\x02a\x10b")], {}, "headers of a record do"),
    "header value missing": ([record(headers=b"\x02\x02a")], {}, "headers of a record do not"),
    "bytes after headers": ([record(headers=b"\x00\x00")], {}, "headers of a record do not fill"),
    "header name without end": ([record(headers=b"\x02" + b"\xff" * 8)], {}, "headers of a re"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("codec", list(Codec))
def test_a_bad_batch_is_named_and_the_others_are_read(name: str, codec: Codec) -> None:
    records, fields, why = FAULTS[name]
    bad = batch(*records, **{"base_offset": 2, "attributes": codec, **fields})
    data = GOOD + bad + batch(record(key=b"after"), base_offset=50)
    ((columns, found),) = Decoder().parts(scan(data))
    assert columns.offset.tolist() == [0, 1, 50]
    assert columns.key.to_list() == [b"k", b"k", b"after"]
    assert columns.first_row.tolist() == [0, 2, 2, 3]
    assert [(b.index, b.position, b.base_offset, b.crc) for b in found] == [
        (1, len(GOOD), 2, False)
    ]
    assert why in found[0].why
    with pytest.raises(CorruptLog, match=f"data at byte {len(GOOD)}: .*"):
        decode(data)


def test_a_fault_is_placed_within_the_records_of_its_batch() -> None:
    data = GOOD + batch(record(), record(1), framed(b"\xff" * 20), base_offset=2)
    (bad,) = bad_batches(data)
    assert bad.why.endswith(f"(byte {2 * len(record())} of its records)")


@pytest.mark.parametrize("codec", list(Codec))
def test_a_changed_byte_is_a_wrong_checksum(codec: Codec) -> None:
    sound = batch(record(value=b"v" * 100), attributes=codec, base_offset=2)
    changed = bytearray(sound)
    changed[-1] ^= 1
    data = GOOD + bytes(changed) + sound
    ((columns, (bad,)),) = Decoder().parts(scan(data))
    assert columns.offset.tolist() == [0, 1, 2]
    assert (bad.index, bad.crc) == (1, True)
    assert bad.why == "the checksum does not match: the bytes changed after they were written"


def test_every_bit_under_the_checksum_counts() -> None:
    for place in range(17, len(GOOD)):
        changed = bytearray(GOOD)
        changed[place] ^= 0x40
        found = scan(bytes(changed))
        assert found.fault is not None or bad_batches(bytes(changed))[0].crc, place


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_nobody_knows_is_a_bad_batch(codec: int) -> None:
    ((header, section),) = split(batch(record(), base_offset=2))
    (bad,) = bad_batches(GOOD + seal(with_codec(header, codec), section))
    assert (bad.index, bad.why) == (1, f"compression codec {codec} does not exist")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_data_that_is_damaged_is_a_bad_batch(codec: Codec) -> None:
    data = GOOD + seal(with_codec(HEADER, codec), b"this was never compressed")
    (bad,) = bad_batches(data)
    assert bad.why.startswith(f"{codec.name.lower()} data is damaged: ")
    assert not bad.crc


def test_a_batch_that_inflates_too_far_is_a_bad_batch() -> None:
    bomb = batch(record(value=bytes(1 << 20)), attributes=Codec.ZSTD, base_offset=2)
    assert len(bomb) < 300
    (bad,) = bad_batches(GOOD + bomb, most_inflated=1 << 16)
    assert bad.why == "inflates to more than 65536 bytes"


def test_a_huge_count_allocates_nothing() -> None:
    decoder = Decoder()
    liars = [
        batch(record(), records_count=2**31 - 1, attributes=codec, base_offset=n)
        for n, codec in enumerate(Codec)
    ]
    ((columns, bad),) = decoder.parts(scan(b"".join(liars)))
    assert (len(columns), len(bad)) == (0, 5)
    assert len(decoder._rows.get(0)[0]) <= 5


# ── parts ──


def mixed(batches: int) -> bytes:
    """Batches of all codecs and sizes; every tenth has a wrong checksum, every eleventh no end."""
    chance = random.Random(5)
    parts = []
    offset = 0
    for n in range(batches):
        count = chance.randrange(6)
        records = [
            record(
                i, key=b"%d" % chance.randrange(99), value=chance.randbytes(chance.randrange(99))
            )
            for i in range(count)
        ]
        codec = chance.choice(list(Codec))
        made = batch(*records, attributes=codec, base_offset=offset)
        if n % 10 == 9:
            made = batch(*records, attributes=codec, base_offset=offset, crc=1)
        if n % 11 == 10:
            made = batch(framed(b"\xff" * 9), attributes=codec, base_offset=offset)
        parts.append(made)
        offset += max(count, 1)
    return b"".join(parts)


@pytest.mark.parametrize("part_bytes", [1, 100, 1000, 10_000, 1 << 26])
def test_several_parts_give_the_same_rows_as_one(part_bytes: int) -> None:
    batches = scan(mixed(200))
    assert batches.fault is None
    ((whole, all_bad),) = Decoder().parts(batches)
    expected = list(whole.records())
    rows, bad, seen = [], [], 0
    for columns, found in Decoder(part_bytes=part_bytes).parts(batches):
        rows += list(columns.records())  # a part is valid until the next is asked for
        bad += [(b.position, b.base_offset, b.why) for b in found]
        assert all(b.index < len(columns.headers_of_batches) for b in found)
        seen += len(columns.headers_of_batches)
    assert seen == len(batches)
    assert rows == expected
    assert bad == [(b.position, b.base_offset, b.why) for b in all_bad]
    assert len(bad) > 20


def test_small_parts_keep_memory_small() -> None:
    data = b"".join(
        batch(record(value=bytes(10_000)), attributes=Codec.LZ4, base_offset=n) for n in range(50)
    )
    parts = 0
    for columns, bad in Decoder(part_bytes=25_000).parts(scan(data)):
        assert len(columns.value.data) <= 25_000 + 10_100
        assert not bad
        parts += 1
    assert parts == 17


def test_a_decoder_can_be_used_again_and_again() -> None:
    decoder = Decoder()
    for count in (3, 1, 10, 0, 2):
        data = batch(*(record(n) for n in range(count)))
        ((columns, bad),) = decoder.parts(scan(data))
        assert columns.offset.tolist() == list(range(count))
        assert not bad


def test_threads_decode_side_by_side_each_with_its_own_decoder() -> None:
    batches = scan(mixed(300))
    expected = list(next(iter(Decoder().parts(batches)))[0].records())

    def decode_again(_: int) -> bool:
        decoder = Decoder(part_bytes=2000)
        rows = [r for columns, _bad in decoder.parts(batches) for r in columns.records()]
        return rows == expected

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(decode_again, range(20)))


def test_more_than_two_gigabytes_at_once_are_refused() -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (2**31,), (0,))
    with pytest.raises(ValueError, match="2147483648 bytes at once; at most"):
        scan(huge)


@pytest.mark.parametrize("log", kafka_logs("codec-*"), ids=str)
def test_positions_of_batches_are_those_of_their_headers(log: KafkaLog) -> None:
    for path in log.segments:
        data = path.read_bytes()
        assert scan(data).position.tolist() == [place for place, _ in headers_in(data, path.name)]
