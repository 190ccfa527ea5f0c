"""Damaged and forged segments are refused or read right: never a crash, a hang or a wrong record.

The judge is `tests.reference`, a decoder that is too simple to be wrong in the same way.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.base.errors import CorruptLog
from sexton.records.columns import Record
from sexton.records.control import first_control_record
from sexton.records.decoder import Decoder, decode, scan
from sexton.records.encoder import encode
from sexton.records.layout import BatchHeader, headers_in
from tests.kafka_data import DATA
from tests.mutations import damaged, forged, noise
from tests.reference import Wrong, records_of

MOST = 1 << 20  # what one batch may inflate to, here
SEGMENTS = [
    path.read_bytes() for path in sorted(DATA.rglob("*.log")) if 0 < path.stat().st_size < 5000
]
seeds = st.integers(0, 2**64 - 1)
segments = st.sampled_from(SEGMENTS)
MARKED = [data for data in SEGMENTS if any(h.is_control for _, h in headers_in(data, "x"))]
harder = settings(max_examples=settings().max_examples * 10)


def expected(batch: bytes) -> list[Record] | None:
    """The records of one batch, or None if it is wrong."""
    try:
        return records_of(batch, most=MOST)
    except (Wrong, CorruptLog):
        return None


def judge(data: bytes) -> tuple[int, int]:
    """How many batches of `data` were read, each just as it should be, and how many refused."""
    found = scan(data)
    ends = found.position + found.size
    batches = iter(zip(found.position.tolist(), ends.tolist(), strict=True))
    read = refused = 0
    for columns, bad in Decoder(most_inflated=MOST, part_bytes=1 << 16).parts(found):
        records = list(columns.records())
        starts = columns.first_row.tolist()
        told = {b.index: b for b in bad}
        for index in range(len(columns.headers_of_batches)):
            position, end = next(batches)
            truth = expected(data[position:end])
            rows = records[starts[index] : starts[index + 1]]
            if index in told:
                assert told[index].position == position
                assert told[index].why
                assert (truth, rows) == (None, [])
                refused += 1
            else:
                assert rows == truth
                read += 1
    return read, refused


@harder
@given(seeds, segments)
def test_a_damaged_segment_is_refused_or_read_right(seed: int, segment: bytes) -> None:
    data = damaged(Random(seed), segment)
    read, refused = judge(data)
    assert read + refused == len(scan(data))


@harder
@given(seeds, segments)
def test_a_forged_segment_is_refused_or_read_right(seed: int, segment: bytes) -> None:
    data = forged(Random(seed), segment)
    read, refused = judge(data)
    assert read + refused == len(scan(data))


def test_forgeries_get_past_the_checksum_and_are_often_refused_all_the_same() -> None:
    read = refused = 0
    whys = set()
    for seed in range(2000):
        random = Random(seed)
        data = forged(random, random.choice(SEGMENTS))
        for _, bad in Decoder(most_inflated=MOST).parts(scan(data)):
            assert not any(b.crc for b in bad)
            refused += len(bad)
            whys |= {b.why.partition(" (")[0].partition(":")[0] for b in bad}
        read += len(scan(data))
    assert refused > 200
    assert read > refused
    # Every fault that the record decoder knows was met.
    for why in (
        "a record's length is wrong",
        "a key ends outside its record",
        "a value ends outside its record",
        "the headers of a record do not fill it",
        "offsets do not increase within the batch's range",
    ):
        assert why in whys
    assert any(why.startswith("claims") for why in whys)
    assert any(why.startswith("bytes are left") for why in whys)


@harder
@given(seeds)
def test_noise_is_refused_or_read_right(seed: int) -> None:
    data = noise(Random(seed))
    read, refused = judge(data)
    assert read + refused == len(scan(data))


@harder
@given(st.one_of(seeds.map(Random).map(noise), st.binary(max_size=200)))
def test_the_kernel_and_plain_python_walk_the_same_batches(data: bytes) -> None:
    assert walked(data) == scanned(data)


@harder
@given(seeds, segments)
def test_they_walk_damaged_segments_alike(seed: int, segment: bytes) -> None:
    random = Random(seed)
    for change in (damaged, forged):
        data = change(random, segment)
        assert walked(data) == scanned(data)


def walked(data: bytes) -> tuple[list[int], str | None]:
    """Where plain Python finds batches, and why it stops."""
    positions: list[int] = []
    walk = headers_in(data, "x")
    while True:
        try:
            positions.append(next(walk)[0])
        except StopIteration:
            return positions, None
        except CorruptLog as error:
            return positions, error.why


def scanned(data: bytes) -> tuple[list[int], str | None]:
    found = scan(data)
    return found.position.tolist(), found.fault


@harder
@given(seeds, segments)
def test_decode_reads_all_of_a_segment_or_names_where_it_is_corrupt(
    seed: int, segment: bytes
) -> None:
    data = damaged(Random(seed), segment)
    try:
        columns = decode(data, "a.log")
    except CorruptLog as error:
        where = error.subject
        assert where.startswith("a.log at byte ")
        assert 0 <= int(where.rpartition(" ")[2]) < len(data)
    else:
        truth = [
            record
            for position, header in headers_in(data, "x")
            for record in records_of(data[position : position + header.size])
        ]
        assert list(columns.records()) == truth


@harder
@given(seeds, segments)
def test_what_was_read_from_a_forgery_can_be_written_and_read_again(
    seed: int, segment: bytes
) -> None:
    found = scan(forged(Random(seed), segment))
    for columns, bad in Decoder(most_inflated=MOST).parts(found):
        if bad:
            continue
        again = decode(encode(columns))
        assert list(again.records()) == list(columns.records())


@harder
@given(seeds, st.sampled_from(MARKED))
def test_a_marker_is_read_alike_by_kernel_and_plain_python(seed: int, segment: bytes) -> None:
    data = forged(Random(seed), segment)
    for position in walked(data)[0]:
        header = BatchHeader.unpack(data, position)
        if not header.is_control or header.codec or not header.records_count:
            continue
        raw = data[position : position + header.size]
        truth = expected(raw)
        if truth is None or truth[0].key is None or len(truth[0].key) < 4:
            continue  # a log is checked before its markers are looked at
        control = first_control_record(raw, "x")
        assert control is not None
        assert (control.key, control.value) == (truth[0].key, truth[0].value)
