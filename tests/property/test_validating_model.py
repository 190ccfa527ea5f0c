"""The validator's kernels beside a reference that one can read: plain Python, a dictionary a rule.

Logs of transactions that commit or abort, with deletes, null keys and JSON of every shape; read in
chunks of any size, with a table so small that the log has to be read several times, or step by step
as a stream does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sexton.audit import state_table
from sexton.audit.expressions import number as number_expression
from sexton.audit.fields import Rows, numbers
from sexton.audit.state_table import StateTable
from sexton.audit.validating import Validating
from sexton.audit.validation import Rules
from sexton.base.partitions import TopicPartition
from sexton.records import Spans, decode, encode, rows
from sexton.records.control import ControlType, marker_batch
from sexton.records.layout import TRANSACTIONAL
from tests.log_text import at_offset

PARTITION = TopicPartition("t", 0)
RULES = {
    "value": Rules(value="json:n"),
    "rising": Rules(value="json:n", rising="rising"),
    "sequence": Rules(sequence="json:n"),
    "id": Rules(id="json:id", content="json:n"),
    "everything": Rules(value="json:n", sequence="json:n", id="key, json:id"),
}


@dataclass(frozen=True, slots=True)
class Written:
    """One batch: records of one producer, or its marker."""

    producer: int | None  # None: no transaction
    records: tuple[tuple[str | None, int | None, int], ...]  # key, n (None: a delete), id
    marker: bool | None = None  # True: commits


KEYS = st.sampled_from(["a", "b", "c", None])
RECORD = st.tuples(KEYS, st.one_of(st.none(), st.integers(-2, 5)), st.integers(0, 6))
BATCH = st.builds(
    Written,
    st.sampled_from([None, None, 7, 8]),
    st.lists(RECORD, min_size=1, max_size=4).map(tuple),
)
MARKER = st.builds(Written, st.sampled_from([7, 8]), st.just(()), st.booleans())
LOGS = st.lists(st.one_of(BATCH, BATCH, MARKER), max_size=25)


# ── the log's bytes, and what a broker says of them ──


def closed(log: list[Written]) -> list[Written]:
    """Without markers that end nothing; what is open in the end is committed."""
    unended: list[int] = []
    kept = []
    for each in log:
        if each.marker is not None:
            if each.producer not in unended:
                continue
            unended.remove(each.producer)
        elif each.producer is not None and each.producer not in unended:
            unended.append(each.producer)
        kept.append(each)
    return kept + [Written(producer, (), True) for producer in unended]


def in_bytes(log: list[Written]) -> tuple[list[bytes], list[tuple[int, int]], set[int]]:
    """Batches, the aborted list, and the offsets that read_committed shows."""
    batches: list[bytes] = []
    aborted: list[tuple[int, int]] = []
    shown: set[int] = set()
    begun: dict[int, tuple[int, list[int]]] = {}
    offset = 0
    for each in log:
        if each.marker is not None:
            assert each.producer is not None
            kind = ControlType.COMMIT if each.marker else ControlType.ABORT
            made = marker_batch(
                kind, producer_id=each.producer, producer_epoch=0, coordinator_epoch=0, timestamp=0
            )
            first, data = begun.pop(each.producer)
            if each.marker:
                shown.update(data)
            else:
                aborted.append((first, each.producer))
            size = 1
        else:
            made, size = data_batch(each), len(each.records)
            offsets = list(range(offset, offset + size))
            if each.producer is None:
                shown.update(offsets)
            else:
                begun.setdefault(each.producer, (offset, []))[1].extend(offsets)
        batches.append(at_offset(made, offset))
        offset += size
    return batches, aborted, shown


def data_batch(each: Written) -> bytes:
    values = [None if n is None else document(n, id_) for _key, n, id_ in each.records]
    columns = rows(
        np.zeros(len(values), np.int64),
        Spans.from_list([None if key is None else key.encode() for key, _n, _id in each.records]),
        Spans.from_list(values),
        batch_rows=len(values),
        attributes=0 if each.producer is None else TRANSACTIONAL,
    )
    if each.producer is not None:
        table = columns.headers_of_batches
        table["producer_id"], table["producer_epoch"], table["base_sequence"] = each.producer, 0, 0
    return encode(columns)


def document(n: int, id_: int) -> bytes:
    """The same facts, written in one of several ways."""
    shapes = (
        lambda: json.dumps({"id": id_, "n": n}),
        lambda: json.dumps({"x": {"n": 99, "id": [1, "}"]}, "n": str(n), "id": str(id_)}, indent=1),
        lambda: f'{{"n":{n},"id":"\\u003{id_}"}}',
        lambda: f'{{ "\\u006e" : {n}.0 , "id":{id_} }}',
    )
    return shapes[(n + id_) % len(shapes)]().encode()


# ── the reference ──


def reference(log: list[Written], shown: set[int], rules: Rules) -> list[tuple[str, int, int]]:
    """(code, offset of the earlier record, offset of the later one)"""
    found: list[tuple[str, int, int]] = []
    last: dict[str, tuple[int, int]] = {}
    counted: dict[str, tuple[int, int]] = {}
    ids: dict[Any, tuple[int, int]] = {}
    offset = -1
    for each in log:
        for key, n, id_ in each.records or ((None, None, -1),):
            offset += 1
            if not each.records or offset not in shown:
                continue
            if rules.value and key is not None:
                if n is None:
                    last.pop(key, None)
                else:
                    before = last.get(key)
                    if before and (n < before[0] or (rules.rising == "rising" and n == before[0])):
                        found.append(("state-regression", before[1], offset))
                    last[key] = n, offset
            if rules.sequence and key is not None:
                if n is None:
                    counted.pop(key, None)
                else:
                    before = counted.get(key)
                    if before and n <= before[0]:
                        found.append(("state-regression", before[1], offset))
                    elif before and n > before[0] + 1:
                        found.append(("key-sequence-gap", before[1], offset))
                    counted[key] = n, offset
            if rules.id and n is not None:
                name = id_ if rules.id == "json:id" else (key, id_)
                if name == (None, id_):
                    continue  # a part of the id is null
                if name in ids:
                    content = n if rules.content == "json:n" else document(n, id_)
                    same = content == ids[name][0]
                    code = "duplicate-record" if same else "inconsistent-duplicate"
                    found.append((code, ids[name][1], offset))
                else:
                    content = n if rules.content == "json:n" else document(n, id_)
                    ids[name] = content, offset  # type: ignore[assignment]
    return sorted(found)


def told(facts: Any) -> list[tuple[str, int, int]]:
    return sorted((each.code, each.last_offset, each.offset) for each in facts.sightings)


@given(LOGS, st.sampled_from(sorted(RULES)), st.integers(1, 6), st.booleans())
def test_a_fold_finds_what_the_reference_finds(
    log: list[Written], name: str, at_once: int, committed: bool
) -> None:
    rules = Rules.from_json({**RULES[name].to_json(), "committed": committed})
    log = closed(log)
    batches, aborted, shown = in_bytes(log)
    seen = shown if committed else set(range(1000))
    end = sum(len(each.records) or 1 for each in log)
    folded = Validating(PARTITION, rules, start=0, end=end, seed=5)
    for first in range(0, len(batches), at_once):
        folded.take(b"".join(batches[first : first + at_once]), aborted)
    assert not folded.again()
    assert told(folded.facts()) == reference(log, seen, rules)


@given(LOGS, st.sampled_from(sorted(RULES)), st.lists(st.integers(0, 60), max_size=4))
def test_steps_of_a_stream_find_what_one_reading_finds(
    log: list[Written], name: str, cuts: list[int]
) -> None:
    """Each step by another process, which knows what the last ones have kept and nothing else."""
    rules = RULES[name]
    log = closed(log)
    batches, aborted, shown = in_bytes(log)
    end = sum(len(each.records) or 1 for each in log)
    edges = sorted({0, end, *(cut for cut in cuts if cut < end)})
    kept: list[dict[str, Any]] = []
    found: list[tuple[str, int, int]] = []
    for start, stop in pairwise(edges):
        step = Validating(PARTITION, rules, start=0, end=0, seed=5, may_read_again=False)
        for entries in kept:
            step.remember(entries)
        step.go_on(start, stop)
        step.take(b"".join(batches), aborted)
        found += told(step.facts())
        kept.append({key: entries.copy() for key, entries in step.changes().items()})
    assert sorted(found) == reference(log, shown, rules)


STEP = st.lists(
    st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from([None, 0, 1]), st.just(0)),
    min_size=1,
    max_size=30,
)


@given(st.lists(STEP, min_size=2, max_size=5))
def test_steps_whose_tables_have_to_grow_keep_what_was_deleted(
    steps: list[list[tuple[str, int | None, int]]],
) -> None:
    """Four slots at first: there is room for two keys, and what was forgotten makes way."""
    kept: list[dict[str, Any]] = []
    found: list[tuple[str, int, int]] = []
    log = [Written(None, tuple(records)) for records in steps]
    batches, _aborted, shown = in_bytes(log)
    start = 0
    with patch.object(state_table, "FIRST_SLOTS", 4):
        for batch, records in zip(batches, steps, strict=True):
            step = Validating(PARTITION, RULES["value"], start=0, end=0, seed=5)
            for entries in kept:
                step.remember(entries)
            step.go_on(start, start + len(records))
            step.take(batch, ())
            found += told(step.facts())
            kept.append({name: entries.copy() for name, entries in step.changes().items()})
            start += len(records)
    assert sorted(found) == reference(log, shown, RULES["value"])


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=300), st.integers(1, 4))
def test_a_table_that_is_read_into_again_finds_the_same(
    pairs: list[tuple[int, int]], small: int
) -> None:
    """By hand, as a real one is too large to be too small for forty keys."""
    random = np.random.default_rng(1)
    prints = random.integers(0, 1 << 64, (41, 2), np.uint64)[[key for key, _n in pairs]]
    prints = np.ascontiguousarray(prints.reshape(-1, 2))
    values = np.array([n for _key, n in pairs], np.int64)
    offsets = np.arange(len(pairs), dtype=np.int64)
    status = np.zeros(len(pairs), np.uint8)
    expected: list[tuple[int, int]] = []
    last: dict[int, tuple[int, int]] = {}
    for offset, (key, n) in enumerate(pairs):
        if key in last and n < last[key][0]:
            expected.append((last[key][1], offset))
        last[key] = n, offset
    found: list[tuple[int, int]] = []
    for low in range(0, 4096, 4096 // small):
        table = StateTable(0, 10_000)
        table.low, table.high = low, min(4096, low + 4096 // small)
        found += [
            (event[3], event[0]) for event in table.take(prints, status, values, offsets).tolist()
        ]
    assert sorted(found, key=lambda each: each[1]) == expected


@given(
    st.one_of(
        st.integers(-(1 << 70), 1 << 70).map(str),
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.text(alphabet="0123456789.-+eE ", max_size=24),
    )
)
def test_a_number_is_read_as_python_reads_it(text: str) -> None:
    columns = decode(
        encode(
            rows(np.zeros(1, np.int64), Spans.from_list([b"k"]), Spans.from_list([text.encode()]))
        )
    )
    some = Rows(columns, np.zeros(1, np.int64), PARTITION)
    read = numbers(number_expression("int", "--value"), some)
    try:
        whole: int | None = int(text)
    except ValueError:
        try:
            fraction = float(text)
            whole = int(fraction) if fraction == int(fraction) else None
        except (ValueError, OverflowError):
            whole = None
    if whole is not None and abs(whole) < 1 << 53:
        assert int(read.status[0]) == 0 and int(read.values[0]) == whole
    elif whole is None:
        assert int(read.status[0]) != 0
