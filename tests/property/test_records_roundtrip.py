"""decode(encode(x)) == x, for any rows in any batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from sexton.records.columns import Columns, Record, Spans, read_headers, write_headers
from sexton.records.decoder import Decoder, decode, scan
from sexton.records.encoder import encode, rows
from sexton.records.layout import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MOST_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    headers_in,
)
from sexton.records.tables import HEADER_TYPE
from sexton.records.varints import get_varint, put_varint
from tests.reference import records_of

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
SHORT = st.integers(-(2**15), 2**15 - 1)
times = st.one_of(st.integers(0, 2**41), st.just(-1), LONG)
items = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=60, max_size=300))
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=4)
base_offsets = st.one_of(
    st.integers(0, 10**6), st.integers(2**62 - 9, 2**62 + 9), st.just(MOST_OFFSET - 2**31)
)


@dataclass(frozen=True)
class Batch:
    header: BatchHeader
    records: list[Record]  # with the timestamps that were written


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    count = draw(st.integers(0, 8))
    deltas = sorted(
        draw(
            st.lists(
                st.one_of(st.integers(0, 30), st.integers(0, 2**31 - 1)),
                min_size=count,
                max_size=count,
                unique=True,
            )
        )
    )
    base = draw(base_offsets)
    bits = draw(st.lists(st.sampled_from([TRANSACTIONAL, CONTROL, LOG_APPEND_TIME, 0]), max_size=2))
    horizon = draw(st.sampled_from([0, DELETE_HORIZON]))
    records = [
        Record(base + delta, draw(times), draw(items), draw(items), tuple(draw(headers)))
        for delta in deltas
    ]
    last = deltas[-1] if deltas else 0
    header = BatchHeader(
        base_offset=base,
        batch_length=0,
        partition_leader_epoch=draw(INT),
        magic=2,
        crc=0,
        attributes=draw(st.sampled_from(list(Codec))) | sum(set(bits)) | horizon,
        last_offset_delta=draw(st.integers(last, min(2**31 - 1, last + 5))),
        base_timestamp=draw(times),
        max_timestamp=draw(times),
        producer_id=draw(LONG),
        producer_epoch=draw(SHORT),
        base_sequence=draw(st.one_of(st.just(-1), st.integers(2**31 - 9, 2**31 - 1), INT)),
        records_count=count,
    )
    return Batch(header, records)


def to_columns(made: list[Batch]) -> Columns:
    records = [record for batch in made for record in batch.records]
    counts = [len(batch.records) for batch in made]
    table = np.frombuffer(b"".join(batch.header.pack() for batch in made), HEADER_TYPE)
    return Columns(
        headers_of_batches=table,
        first_row=np.cumsum([0, *counts], dtype=np.int64),
        offset=np.array([r.offset for r in records], np.int64),
        written_timestamp=np.array([r.timestamp for r in records], np.int64),
        key=Spans.from_list([r.key for r in records]),
        value=Spans.from_list([r.value for r in records]),
        headers=Spans.from_list([write_headers(r.headers) for r in records]),
    )


def written(columns: Columns) -> list[Record]:
    """The rows with the times that their producers set, whatever the broker says."""
    return [
        Record(record.offset, time, *record[2:])
        for record, time in zip(columns.records(), columns.written_timestamp.tolist(), strict=True)
    ]


@given(st.lists(batches(), max_size=5))
def test_what_is_encoded_is_decoded_again(made: list[Batch]) -> None:
    data = encode(to_columns(made))
    back = decode(data)
    assert written(back) == [record for batch in made for record in batch.records]
    for (_, header), batch in zip(headers_in(data, "x"), made, strict=True):
        expected = batch.header
        assert header.records_count == len(batch.records)
        assert header.last_sequence == expected.last_sequence
        for name in (
            "base_offset", "partition_leader_epoch", "attributes", "last_offset_delta",
            "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence",
        ):  # fmt: skip
            assert getattr(header, name) == getattr(expected, name), name
    assert encode(back) == data


@given(st.lists(batches(), min_size=1, max_size=4))
def test_the_plain_python_decoder_reads_what_we_encode(made: list[Batch]) -> None:
    data = encode(to_columns(made))
    found = [
        record
        for position, header in headers_in(data, "x")
        for record in records_of(data[position : position + header.size])
    ]
    assert found == list(decode(data).records())


@given(st.lists(batches(), max_size=6), st.integers(1, 2000))
def test_parts_of_any_size_give_the_same_rows(made: list[Batch], part_bytes: int) -> None:
    found = scan(encode(to_columns(made)))
    rows_of_parts: list[Record] = []
    for columns, bad in Decoder(part_bytes=part_bytes).parts(found):
        assert not bad
        rows_of_parts += list(columns.records())
    assert rows_of_parts == list(decode(found).records())


plain_rows = st.lists(st.tuples(times, items, items), max_size=30)


@given(plain_rows, st.integers(1, 3000), st.none() | st.integers(1, 9), st.sampled_from(Codec))
def test_planned_rows_come_back_in_batches_within_their_bounds(
    made: list[tuple[int, bytes | None, bytes | None]],
    batch_bytes: int,
    batch_rows: int | None,
    codec: Codec,
) -> None:
    columns = rows(
        np.array([time for time, _, _ in made], np.int64),
        Spans.from_list([key for _, key, _ in made]),
        Spans.from_list([value for _, _, value in made]),
        base_offset=2**40,
        batch_bytes=batch_bytes,
        batch_rows=batch_rows,
        codec=codec,
    )
    data = encode(columns)
    found = [(r.timestamp, r.key, r.value) for r in decode(data).records()]
    assert found == made
    assert decode(data).offset.tolist() == list(range(2**40, 2**40 + len(made)))
    for _, header in headers_in(data, "x"):
        assert header.records_count <= (batch_rows or len(made))
        if codec == Codec.NONE and header.records_count > 1:
            assert header.size <= batch_bytes


@given(LONG)
@example(0)
@example(-1)
def test_a_varint_comes_back(value: int) -> None:
    assert get_varint(put_varint(value) + b"\xff", 0) == (value, len(put_varint(value)))


@given(headers)
def test_headers_come_back(made: list[tuple[str, bytes | None]]) -> None:
    assert read_headers(write_headers(made)) == tuple(made)
