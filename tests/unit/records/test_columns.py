from __future__ import annotations

import numpy as np
import pytest

from sexton.records.columns import Record, Spans, read_headers, write_headers
from sexton.records.decoder import decode
from sexton.records.layout import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from sexton.records.tables import join, last_offsets, sizes
from tests.handmade import batch, record

T = 1_700_000_000_000


def test_a_column_tells_null_from_empty() -> None:
    items = [b"a", None, b"", b"bcd", None, b""]
    column = Spans.from_list(items)
    assert column.to_list() == items
    assert [column[row] for row in range(len(column))] == items
    assert column.length.tolist() == [1, -1, 0, 3, -1, 0]


def test_a_column_of_nothing_is_a_column() -> None:
    assert Spans.from_list([]).to_list() == []
    assert Spans.from_list([None, None]).to_list() == [None, None]


def test_taking_rows_copies_no_bytes() -> None:
    column = Spans.from_list([b"a", None, b"cc", b"ddd"])
    by_mask = column.take(np.array([True, False, False, True]))
    by_number = column.take(np.array([3, 1]))
    assert by_mask.to_list() == [b"a", b"ddd"]
    assert by_number.to_list() == [b"ddd", None]
    assert by_mask.data is column.data


def test_arrows_layout_becomes_a_column() -> None:
    data = np.frombuffer(b"abbccc", np.uint8)
    offsets = np.array([0, 1, 1, 3, 6], np.int64)
    assert Spans.from_offsets(data, offsets).to_list() == [b"a", b"", b"bb", b"ccc"]
    valid = np.array([True, False, True, False])
    assert Spans.from_offsets(data, offsets, valid).to_list() == [b"a", None, b"bb", None]


def test_a_buffer_that_32_bits_cannot_address_is_refused() -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (2**32 + 2,), (0,))
    offsets = np.array([2**32, 2**32 + 2])
    with pytest.raises(ValueError, match="4294967298 bytes in one column; at most 2147483647"):
        Spans.from_offsets(huge, offsets)


HEADERS: list[tuple[str, bytes | None]] = [
    ("h", b"1"), ("h", b""), ("none", None), ("", b"\xff"), ("ключ", b"x" * 200),
]  # fmt: skip


def test_headers_keep_their_order_repeats_and_nulls() -> None:
    assert read_headers(write_headers(HEADERS)) == tuple(HEADERS)
    assert write_headers([]) == b"\0"
    assert read_headers(b"\0") == read_headers(b"") == read_headers(None) == ()


def test_a_header_name_that_is_no_text_is_still_shown() -> None:
    assert read_headers(b"\x02\x04\xff\xfe\x01") == (("��", None),)


def test_records_come_out_as_objects() -> None:
    data = batch(
        record(timestamp_delta=5, key=None, value=b"", headers=write_headers(HEADERS)),
        record(1, timestamp_delta=-7, key=b"", value=None),
        base_offset=10,
    )
    assert list(decode(data).records()) == [
        Record(10, T + 5, None, b"", tuple(HEADERS)),
        Record(11, T - 7, b"", None, ()),
    ]


def test_every_row_knows_its_batch() -> None:
    data = (
        batch(record(), record(1), producer_id=5)
        + batch(base_offset=2, last_offset_delta=3)
        + batch(record(), base_offset=6, producer_id=6, attributes=TRANSACTIONAL)
        + batch(record(key=bytes(4)), base_offset=7, attributes=TRANSACTIONAL | CONTROL)
    )
    columns = decode(data)
    assert columns.batch.tolist() == [0, 0, 2, 3]
    assert columns.first_row.tolist() == [0, 2, 2, 3, 4]
    assert columns.of_batch("producer_id").tolist() == [5, 5, 6, -1]
    assert columns.is_transactional.tolist() == [False, False, True, True]
    assert columns.is_control.tolist() == [False, False, False, True]
    assert columns.offset.tolist() == [0, 1, 6, 7]
    assert len(columns) == 4


def test_log_append_time_is_the_time_of_all_records_of_a_batch() -> None:
    data = batch(record(timestamp_delta=1), max_timestamp=T + 1) + batch(
        record(timestamp_delta=2),
        record(1, timestamp_delta=3),
        base_offset=1,
        attributes=LOG_APPEND_TIME,
        max_timestamp=T + 900,
    )
    columns = decode(data)
    assert columns.timestamp.tolist() == [T + 1, T + 900, T + 900]
    assert columns.written_timestamp.tolist() == [T + 1, T + 2, T + 3]


def test_header_tables_stay_in_wire_order_when_joined() -> None:
    one, two = batch(record()), batch(record(), record(1), base_offset=1)
    tables = [decode(data).headers_of_batches for data in (one, two)]
    joined = join(tables)
    assert joined.tobytes() == one[:61] + two[:61]
    assert sizes(joined).tolist() == [len(one), len(two)]
    assert last_offsets(joined).tolist() == [0, 2]
    assert len(join([])) == 0
