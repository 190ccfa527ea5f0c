"""Ids across partitions, order and losses against a source, beside plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sexton.audit.across import CandidateFold, Overlap, empty_sketch, repeated
from sexton.audit.fields import Rows
from sexton.audit.losing import LossFold
from sexton.audit.ordering import OrderFold
from sexton.audit.validating import Validating
from sexton.audit.validation import Rules
from sexton.base.partitions import TopicPartition
from sexton.records import Spans, decode, encode, rows

BITS = 1 << 16
IDS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=15)  # id, content


def rows_of(
    at: TopicPartition,
    keys: list[bytes | None],
    values: list[bytes | None],
    times: list[int] | None = None,
) -> Rows:
    stamps = np.array(times or [0] * len(keys), np.int64)
    made = rows(stamps, Spans.from_list(keys), Spans.from_list(values))
    columns = decode(encode(made))
    return Rows(columns, np.arange(len(keys), dtype=np.int64), at)


@given(st.lists(IDS, min_size=2, max_size=4))
def test_ids_in_several_partitions_are_found_exactly(
    partitions: list[list[tuple[int, int]]],
) -> None:
    rules = Rules(id="key")
    overlap = Overlap(BITS)
    every = []
    for number, records in enumerate(partitions):
        if not records:
            continue
        at = TopicPartition("t", number)
        keys: list[bytes | None] = [b"id-%d" % each for each, _content in records]
        some = rows_of(at, keys, [b"%d" % content for _each, content in records])
        folded = Validating(at, rules, start=0, end=100, seed=7)
        folded.sketch = empty_sketch(BITS)
        folded.take_rows(some)
        overlap.add(folded.sketch)
        every.append((at, some))
    found = []
    for at, some in every:
        candidates = CandidateFold(at, rules, overlap.twice, 7)
        candidates.take_rows(some)
        found.append(candidates.candidates())
    sightings = repeated(found, 1000)[0] if found else []
    told = sorted(
        (each.code, each.partition.partition, each.offset, each.last_partition, each.last_offset)
        for each in sightings
    )
    assert told == sorted(reference(partitions))


def reference(partitions: list[list[tuple[int, int]]]) -> list[tuple[str, int, int, int, int]]:
    """All times are alike, so the lowest partition has the first record of an id."""
    first: dict[int, tuple[int, int, int]] = {}
    found = []
    for number, records in enumerate(partitions):
        seen = set()
        for offset, (each, content) in enumerate(records):
            if each in seen:
                continue  # within a partition: found when that was folded
            seen.add(each)
            if each not in first:
                first[each] = number, offset, content
            else:
                there, at, other = first[each]
                code = "duplicate-record" if content == other else "inconsistent-duplicate"
                found.append((code, number, offset, there, at))
    return found


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=20),  # key, id
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 14)), max_size=20),
    st.integers(1, 3),
)
def test_another_order_than_that_of_the_source_is_found(
    source: list[tuple[int, int]], output: list[tuple[int, int]], partitions: int
) -> None:
    rules = Rules(id="value", source="s")
    fold = OrderFold(TopicPartition("t", 0), rules, 7)
    if output:
        at = TopicPartition("t", 0)
        fold.take_output(
            rows_of(at, [b"%d" % key for key, _ in output], [b"%d" % i for _, i in output])
        )
    fold.begin_source()
    for number in range(partitions):
        some = source[number::partitions]
        if some:
            at = TopicPartition("s", number)
            fold.take_source(
                rows_of(at, [b"%d" % k for k, _ in some], [b"%d" % i for _, i in some])
            )
    sightings, count = fold.sightings(1000)
    expected, unknown = order_reference(source, output, partitions)
    assert [(each.last_offset, each.offset) for each in sightings] == expected
    assert count == len(expected) and fold.unknown == unknown


def order_reference(
    source: list[tuple[int, int]], output: list[tuple[int, int]], partitions: int
) -> tuple[list[tuple[int, int]], int]:
    places: dict[int, tuple[int, int] | None] = {}
    for number in range(partitions):
        for offset, (_key, each) in enumerate(source[number::partitions]):
            places[each] = None if each in places else (number, offset)
    last: dict[tuple[int, int], tuple[int, int]] = {}
    seen: set[int] = set()
    found = []
    unknown = 0
    for offset, (key, each) in enumerate(output):
        if each in seen:
            continue
        seen.add(each)
        place = places.get(each)
        if place is None:
            unknown += 1
            continue
        before = last.get((key, place[0]))
        if before is not None and place[1] < before[0]:
            found.append((before[1], offset))
        last[key, place[0]] = place[1], offset
    return found, unknown


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), max_size=20),
    st.lists(st.integers(0, 14), max_size=20),
    st.integers(1, 3),
    st.none() | st.integers(0, 10),
)
def test_what_no_partition_of_the_output_has_is_lost(
    source: list[tuple[int, int]], output: list[int], partitions: int, settled_ms: int | None
) -> None:
    """Unless it is so young that it may be on its way."""
    at = TopicPartition("s", 0)
    fold = LossFold(at, Rules(id="value", source="s", complete=True), 7, settled_ms)
    if source:
        ids: list[bytes | None] = [b"%d" % each for each, _ in source]
        fold.take_source(rows_of(at, [None] * len(ids), ids, [time_ms for _, time_ms in source]))
    fold.begin_output()
    for number in range(partitions):
        some = output[number::partitions]
        if some:
            there = TopicPartition("t", number)
            fold.take_output(rows_of(there, [None] * len(some), [b"%d" % each for each in some]))
    missing = [offset for offset, (each, _) in enumerate(source) if each not in output]
    lost = [each for each in missing if settled_ms is None or source[each][1] < settled_ms]
    assert [each.offset for each in fold.sightings(1000)] == lost
    assert [each.offset for each in fold.sightings(2)] == lost[:2]
    assert fold.missing == len(missing) and fold.unsettled == len(missing) - len(lost)
    assert fold.judged == len(source) - fold.unsettled
