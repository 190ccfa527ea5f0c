from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sexton.records.columns import Columns, Spans, write_headers
from sexton.records.decoder import decode
from sexton.records.encoder import Encoder, encode, rows
from sexton.records.kernels import ROW_BYTES
from sexton.records.layout import TRANSACTIONAL, BatchHeader, Codec, headers_in
from tests.handmade import batch, record

T = 1_700_000_000_000


def some_rows(count: int, **options: int) -> Columns:
    times = T + np.arange(count, dtype=np.int64)
    keys = Spans.from_list([b"key-%d" % n for n in range(count)])
    values = Spans.from_list([b"value %d" % n for n in range(count)])
    return rows(times, keys, values, **options)  # type: ignore[arg-type]


def headers_of(data: bytes) -> list[BatchHeader]:
    return [header for _, header in headers_in(data, "encoded")]


def test_encoding_gives_the_bytes_that_were_decoded() -> None:
    data = (
        batch(record(key=None), record(1, timestamp_delta=-4, value=None), producer_id=9)
        + batch(base_offset=2, last_offset_delta=7, base_sequence=4)
        + batch(record(3, headers=b"\x02\x02h\x01"), base_offset=10, last_offset_delta=5)
    )
    assert encode(decode(data)) == data


def test_length_count_and_checksum_follow_the_rows() -> None:
    columns = decode(batch(record(), record(1), record(2)))
    kept = np.array([0, 2])
    fewer = replace(
        columns,
        first_row=np.array([0, 2]),
        offset=columns.offset[kept],
        written_timestamp=columns.written_timestamp[kept],
        key=columns.key.take(kept),
        value=columns.value.take(kept),
        headers=columns.headers.take(kept),
    )
    assert encode(fewer) == batch(record(), record(2), last_offset_delta=2)


def test_an_emptied_batch_keeps_its_range() -> None:
    columns = decode(batch(record(), record(1)))
    nothing = np.array([], np.int64)
    emptied = Columns(
        columns.headers_of_batches,
        np.array([0, 0]),
        columns.offset[:0],
        columns.written_timestamp[:0],
        *(spans.take(nothing) for spans in (columns.key, columns.value, columns.headers)),
    )
    assert encode(emptied) == batch(last_offset_delta=1)


def test_nulls_and_empty_bytes_stay_what_they_are() -> None:
    keys, values = [None, b"", b"k", None], [b"", None, None, b"v"]
    columns = rows(np.full(4, T), Spans.from_list(keys), Spans.from_list(values))
    back = decode(encode(columns))
    assert (back.key.to_list(), back.value.to_list()) == (keys, values)


def test_rows_without_headers_and_rows_with_them() -> None:
    sections = [b"\0", write_headers([("a", b"1"), ("b", None)]), b""]
    columns = rows(
        np.full(3, T),
        Spans.from_list([b"k"] * 3),
        Spans.from_list([b"v"] * 3),
        Spans.from_list(sections),
    )
    back = [r.headers for r in decode(encode(columns)).records()]
    assert back == [(), (("a", b"1"), ("b", None)), ()]
    plain = rows(np.full(1, T), Spans.from_list([b"k"]), Spans.from_list([b"v"]))
    assert encode(plain) == batch(record(), partition_leader_epoch=-1)


def test_new_rows_are_batches_of_nobody_with_offsets_from_the_base() -> None:
    data = encode(some_rows(5, base_offset=100, batch_rows=2, attributes=TRANSACTIONAL))
    headers = headers_of(data)
    assert [(h.base_offset, h.last_offset, h.records_count) for h in headers] == [
        (100, 101, 2),
        (102, 103, 2),
        (104, 104, 1),
    ]
    for header in headers:
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        assert (header.partition_leader_epoch, header.is_transactional) == (-1, True)
    assert decode(data).offset.tolist() == [100, 101, 102, 103, 104]


def test_a_batchs_times_are_those_of_its_first_and_latest_row() -> None:
    times = np.array([T + 5, T - 9, T + 7, T], np.int64)
    keys = Spans.from_list([b"k"] * 4)
    (header,) = headers_of(encode(rows(times, keys, keys)))
    assert (header.base_timestamp, header.max_timestamp) == (T + 5, T + 7)
    assert decode(encode(rows(times, keys, keys))).timestamp.tolist() == times.tolist()


@pytest.mark.parametrize("most", [200, 1000, 16384])
def test_no_batch_is_larger_than_asked_for_nor_smaller_than_need_be(most: int) -> None:
    data = encode(some_rows(500, batch_bytes=most))
    headers = headers_of(data)
    assert sum(h.records_count for h in headers) == 500
    assert all(h.size <= most for h in headers)
    largest_record = 30
    assert all(h.size > most - largest_record for h in headers[:-1])


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    values = Spans.from_list([b"v", b"v" * 5000, b"v"])
    columns = rows(np.full(3, T), Spans.from_list([None] * 3), values, batch_bytes=1000)
    assert [h.records_count for h in headers_of(encode(columns))] == [1, 1, 1]


def test_no_rows_make_no_batches() -> None:
    assert encode(some_rows(0)) == b""


@pytest.mark.parametrize("codec", list(Codec))
def test_a_codec_compresses_each_batch_for_itself(codec: Codec) -> None:
    data = encode(some_rows(300, batch_rows=100, codec=codec))
    assert [h.codec for h in headers_of(data)] == [codec] * 3
    assert decode(data).key.to_list() == [b"key-%d" % n for n in range(300)]


def test_batches_of_several_codecs_may_stand_side_by_side() -> None:
    data = b"".join(
        batch(record(value=b"v" * 99), attributes=codec, base_offset=codec) for codec in Codec
    )
    assert encode(decode(data)) == data


def test_an_encoder_can_be_used_again_and_again() -> None:
    encoder = Encoder()
    for count in (10, 1, 0, 1000, 3):
        columns = some_rows(count)
        assert encoder.encode(columns).tobytes() == encode(columns)


@pytest.mark.parametrize("column", ["key", "value", "headers"])
@pytest.mark.parametrize(
    ("position", "length"), [(-1, 1), (0, 11), (10, 1), (2**31 - 1, 1), (1, 2**31 - 1)]
)
def test_a_span_outside_its_buffer_is_refused(column: str, position: int, length: int) -> None:
    columns = some_rows(3)
    sound = Spans.from_list([b"1234", b"56", b"7890"])
    positions, lengths = sound.position.copy(), sound.length.copy()
    positions[1], lengths[1] = position, length
    outside = Spans(sound.data, positions, lengths)
    wrong = {
        "key": replace(columns, key=outside),
        "value": replace(columns, value=outside),
        "headers": replace(columns, headers=outside),
    }[column]
    with pytest.raises(ValueError, match="row 1: its key, value or headers end outside"):
        encode(wrong)


def test_wild_numbers_never_take_more_room_than_a_row_has() -> None:
    count = 1000
    lengths = np.full(count, -(2**31), np.int32)
    nothing = Spans(np.empty(0, np.uint8), np.zeros(count, np.int32), lengths)
    columns = replace(
        rows(np.zeros(count, np.int64), nothing, nothing, nothing),
        offset=np.full(count, -(2**63), np.int64),
        written_timestamp=np.full(count, -(2**63), np.int64),
    )
    # length 1, attributes 1, timestamp 10, offset 10, key 5, value 5, no headers 1
    assert len(encode(columns)) == 61 + count * 33
    assert ROW_BYTES >= 33


def test_columns_of_different_lengths_are_our_own_mistake() -> None:
    columns = some_rows(3)
    for wrong in (
        replace(columns, offset=columns.offset[:2]),
        replace(columns, key=columns.key.take(np.array([0]))),
        replace(columns, first_row=np.array([0, 4])),
        replace(columns, first_row=np.array([0, 3, 3])),
    ):
        with pytest.raises(AssertionError):
            encode(wrong)
