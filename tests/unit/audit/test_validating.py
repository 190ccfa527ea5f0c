"""A partition held against its promises: each kind of fault, and beside it the log without it."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sexton.audit import state_table
from sexton.audit.fields import Rows
from sexton.audit.losing import LossFold
from sexton.audit.ordering import OrderFold
from sexton.audit.validating import UnreadableRecord, Validating
from sexton.audit.validation import PartitionFacts, Rules, Sighting
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.records import Spans, decode, encode, rows
from sexton.records.columns import write_headers
from tests.unit.audit.replicas import PARTITION, TextReplica, chunks

END = 1 << 40
SEED = 0xFEDCBA9876543210
Item = tuple[bytes | None, bytes | None]


def log(items: Sequence[Item], headers: Sequence[bytes] | None = None) -> bytes:
    return encode(
        rows(
            np.arange(len(items), dtype=np.int64) + 1_700_000_000_000,
            Spans.from_list([key for key, _value in items]),
            Spans.from_list([value for _key, value in items]),
            Spans.from_list(headers) if headers is not None else None,
            batch_rows=7,
        )
    )


def fold(data: bytes, rules: Rules, most_keys: int = 1000) -> PartitionFacts:
    folded = Validating(PARTITION, rules, start=0, end=END, seed=SEED, most_keys=most_keys)
    while True:
        folded.take(data, ())
        if not folded.again():
            return folded.facts()


def told(facts: PartitionFacts) -> list[tuple[str, bytes | None, str, str, int, int]]:
    return [
        (each.code, each.key, each.last_value, each.value, each.last_offset, each.offset)
        for each in facts.sightings
    ]


def text_fold(lines: str, rules: Rules) -> PartitionFacts:
    replica = TextReplica(1, lines.splitlines())
    folded = Validating(PARTITION, rules, start=0, end=END, seed=SEED)
    for data, aborted in chunks(replica, 0):
        folded.take(data, aborted)
    assert not folded.again()
    return folded.facts()


# ── a value that must not go back ──

COUNTS: list[Item] = [(b"key_17", b"%d" % count) for count in (108, 109, 110, 105, 106)]


def test_a_counter_that_falls_from_110_to_105_is_one_regression() -> None:
    facts = fold(log(COUNTS), Rules(value="int"))
    assert told(facts) == [("state-regression", b"key_17", "110", "105", 2, 3)]
    assert facts.counts == {"state-regression": 1}
    assert (facts.records, facts.keys) == (5, 1)


def test_a_counter_that_rises_is_well() -> None:
    assert not fold(log(sorted(COUNTS, key=lambda each: each[1] or b"")), Rules(value="int")).counts


def test_keys_do_not_disturb_each_other() -> None:
    items = [(b"a", b"9"), (b"b", b"1"), (b"a", b"10"), (b"b", b"2")]
    assert not fold(log(items), Rules(value="int")).counts


def test_the_same_value_again_counts_only_where_it_has_to_rise() -> None:
    items: list[Item] = [(b"a", b"1"), (b"a", b"1")]
    assert not fold(log(items), Rules(value="int")).counts
    facts = fold(log(items), Rules(value="int", rising="rising"))
    assert told(facts) == [("state-regression", b"a", "1", "1", 0, 1)]


def test_a_key_that_was_deleted_begins_anew() -> None:
    items: list[Item] = [(b"a", b"9"), (b"a", None), (b"a", b"1"), (b"a", b"0")]
    assert told(fold(log(items), Rules(value="int"))) == [
        ("state-regression", b"a", "1", "0", 2, 3)
    ]


def test_so_does_one_whose_number_is_elsewhere_and_whose_delete_has_none() -> None:
    items: list[Item] = [(b"a", b"x"), (b"a", b"x"), (b"a", None), (b"a", b"x")]
    numbered = [write_headers([("n", b"%d" % number)]) for number in (1, 2, 3, 1)]
    bare = [*numbered[:2], write_headers([]), numbered[3]]
    assert not fold(log(items, bare), Rules(sequence="header:n int")).counts
    # With a number it is a record like any other.
    counts = fold(log(items, numbered), Rules(sequence="header:n int")).counts
    assert counts == {"state-regression": 1}


def test_what_is_no_number_is_not_compared_with_one() -> None:
    items: list[Item] = [(b"a", struct.pack(">d", each)) for each in (1.0, math.nan, 2.0)]
    with pytest.raises(UnreadableRecord, match=r"offset 1: .* is not a number"):
        fold(log(items), Rules(value="double"))
    facts = fold(log(items), Rules(value="double", skip_unreadable=True))
    assert (facts.counts, facts.unreadable, facts.first_unreadable) == ({}, 1, 1)


def test_a_record_without_a_key_is_nobodys_and_is_counted() -> None:
    facts = fold(log([(None, b"9"), (None, b"1"), (b"a", b"9")]), Rules(value="int"))
    assert not facts.counts and facts.without_key == 2


def test_what_was_aborted_is_no_state() -> None:
    lines = "0 k=110\n1 @7 k=105\n2 @7 abort\n3 k=111"
    assert not text_fold(lines, Rules(value="int")).counts
    seen = text_fold(lines, Rules(value="int", committed=False))
    assert told(seen) == [("state-regression", b"k", "110", "105", 0, 1)]


def test_what_was_committed_is() -> None:
    lines = "0 k=110\n1 @7 k=105\n2 @7 commit\n3 k=111"
    assert told(text_fold(lines, Rules(value="int"))) == [
        ("state-regression", b"k", "110", "105", 0, 1)
    ]


# ── where values are ──


@pytest.mark.parametrize(
    ("expression", "high", "low"),
    [
        ("int", b"110", b"105"),
        ("int", b"-5", b"-6"),
        ("int", b"9223372036854775807", b"-9223372036854775808"),
        ("float", b"1.5", b"1.25"),
        ("float", b"-1e-3", b"-1"),
        ("int64", (110).to_bytes(8, "big"), (-1).to_bytes(8, "big", signed=True)),
        ("int32", (110).to_bytes(4, "big"), (105).to_bytes(4, "big")),
        ("double", b"\x3f\xf8" + bytes(6), b"\xbf\xf8" + bytes(6)),
        ("json:count", b'{"x": {"count": 1}, "count": 110}', b'{"count":105}'),
        ("json:a.count", b'{"a": {"count": "110"}}', b'{"b": [1, "}"], "a": {"count": 105 } }'),
        ("json:count", b'{"c\\u006funt": 110}', b'{"count": 1e2}'),
        ("json:count float", b'{"count": 110.5}', b'{"count": 110.25}'),
        ("value json:count int", b'{"count": 110}', b'{"count": 105}'),
    ],
)
def test_a_value_is_found_and_compared(expression: str, high: bytes, low: bytes) -> None:
    assert fold(log([(b"k", high), (b"k", low)]), Rules(value=expression)).counts == {
        "state-regression": 1
    }
    assert not fold(log([(b"k", low), (b"k", high)]), Rules(value=expression)).counts


def test_a_value_may_be_in_a_header_or_the_time() -> None:
    headers = [write_headers([("x", b"0"), ("seq", b"%d" % seq)]) for seq in (2, 1)]
    data = log([(b"k", None), (b"k", b"")], headers)
    assert fold(data, Rules(value="header:seq int")).counts == {"state-regression": 1}
    assert not fold(data, Rules(value="timestamp")).counts
    assert not fold(data, Rules(value="offset")).counts


def test_a_key_may_be_a_part_of_a_record() -> None:
    values = [{"user": "u", "n": 2}, {"user": "v", "n": 1}, {"user": "u", "n": 1}]
    data = log([(None, json.dumps(value).encode()) for value in values])
    facts = fold(data, Rules(key="json:user", value="json:n"))
    assert told(facts) == [("state-regression", b"u", "2", "1", 0, 2)]


@pytest.mark.parametrize(
    ("rules", "value", "why"),
    [
        (Rules(value="int"), b"many", "the value is 'many', which is not a whole number"),
        (Rules(value="float"), b"nan", "the value is 'nan', which is not a number"),
        (Rules(value="int64"), b"110", "the value has 3 bytes, and int64 has 8"),
        (Rules(value="json:count"), b'{"c": 1}', "the value has no member count"),
        (Rules(value="json:count"), b"110", "the value has no member count"),
        (Rules(value="json:count"), b'{"count": null}', "the value has no member count"),
        (Rules(value="header:seq"), b"1", "there is no header seq"),
        (Rules(id="json:id"), b"{", "the value has no member id"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_its_offset(
    rules: Rules, value: bytes, why: str
) -> None:
    good = b'{"count": 1, "id": 1}' if "json" in f"{rules.value}{rules.id}" else b"1"
    good = bytes(8) if rules.value == "int64" else good
    headers = [write_headers([("seq", b"1")]), write_headers([])]
    data = log([(b"k", good), (b"k", value)], headers)
    with pytest.raises(UnreadableRecord) as raised:
        fold(data, rules)
    assert raised.value.subject == "t-0, offset 1"
    assert why in raised.value.why
    assert "--skip-unreadable" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("expression", "value", "read_as"),
    [
        ("int", b"1.5", "float"),
        ("int", b"-2e-3", "float"),
        ("value json:n", b'{"n": 1.5}', "json:n float"),
        ("key json:n", b"", "key json:n float"),
    ],
)
def test_a_fraction_is_not_to_be_left_out(expression: str, value: bytes, read_as: str) -> None:
    """The control: what is no number at all, or a whole one that is too large."""
    with pytest.raises(UnreadableRecord, match="which is not a whole number") as raised:
        fold(log([(b'{"n": 1.5}', value)]), Rules(value=expression))
    assert raised.value.hint == f"read it as a fraction: '{read_as}'"
    for other in (b"many", b"9" * 30):
        with pytest.raises(UnreadableRecord) as raised:
            fold(log([(b"k", other)]), Rules(value="int"))
        assert "--skip-unreadable" in (raised.value.hint or "")


def test_what_cannot_be_read_can_be_left_out() -> None:
    data = log([(b"k", b"2"), (b"k", b"many"), (b"k", b"1")])
    facts = fold(data, Rules(value="int", skip_unreadable=True))
    assert told(facts) == [("state-regression", b"k", "2", "1", 0, 2)]
    assert (facts.unreadable, facts.first_unreadable) == (1, 1)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        (Rules(value="jsn:count"), "'jsn:count' in 'jsn:count' is not understood"),
        (Rules(value="json:"), "names no member"),
        (Rules(value="value text"), "reads text"),
        (Rules(value=""), "is empty"),
        (Rules(value="timestamp int"), "is a number already"),
        (Rules(value="json:a int64"), "JSON has no int64"),
        (Rules(id="header:"), "names no header"),
        (Rules(id="key, json:a float"), "cannot tell ids apart"),
    ],
)
def test_an_expression_that_means_nothing_is_refused(rules: Rules, complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        fold(log([]), rules)
    assert complaint in raised.value.why


# ── a sequence without gaps ──


def test_numbers_that_are_left_out_are_a_gap() -> None:
    items: list[Item] = [(b"k", b"4"), (b"k", b"5"), (b"k", b"8"), (b"k", b"8"), (b"k", b"9")]
    assert told(fold(log(items), Rules(sequence="int"))) == [
        ("key-sequence-gap", b"k", "5", "8", 1, 2),
        ("state-regression", b"k", "8", "8", 2, 3),
    ]


def test_one_after_the_other_is_no_gap() -> None:
    assert not fold(log([(b"k", b"%d" % n) for n in range(-3, 9)]), Rules(sequence="int")).counts


# ── ids that come once ──


def test_an_id_that_comes_again_is_a_duplicate_or_worse() -> None:
    values = [{"id": "a", "v": 1}, {"id": "b", "v": 1}, {"id": "a", "v": 1}, {"v": 2, "id": "b"}]
    data = log([(b"k", json.dumps(value).encode()) for value in values])
    facts = fold(data, Rules(id="json:id"))
    assert [(each.code, each.id, each.last_offset, each.offset) for each in facts.sightings] == [
        ("duplicate-record", b"a", 0, 2),
        ("inconsistent-duplicate", b"b", 1, 3),
    ]
    assert facts.ids == 2


def test_content_may_be_a_part_of_the_record() -> None:
    """Two attempts differ in when they were made, and agree in what matters."""
    values = [{"id": 1, "v": 1, "at": 5}, {"id": 1, "v": 1, "at": 6}]
    data = log([(b"k", json.dumps(value).encode()) for value in values])
    assert fold(data, Rules(id="json:id")).counts == {"inconsistent-duplicate": 1}
    assert fold(data, Rules(id="json:id", content="json:v")).counts == {"duplicate-record": 1}


def test_an_id_is_what_it_says_however_it_is_written() -> None:
    data = log([(b"k", rb'{"id": "a\u0062c"}'), (b"k", b'{"id": "abc"}'), (b"k", b'{"id":"ab"}')])
    assert fold(data, Rules(id="json:id")).counts == {"inconsistent-duplicate": 1}


def test_an_id_of_several_parts_is_one_id() -> None:
    items: list[Item] = [(b"a", b'{"n":1}'), (b"b", b'{"n":1}'), (b"a", b'{"n":2}')]
    assert not fold(log(items), Rules(id="key, json:n")).counts
    assert fold(log([*items, items[0]]), Rules(id="key, json:n")).counts == {"duplicate-record": 1}


def test_parts_of_an_id_do_not_run_together() -> None:
    items: list[Item] = [(b"ab", b'{"n":"c"}'), (b"a", b'{"n":"bc"}')]
    assert not fold(log(items), Rules(id="key, json:n")).counts


# ── what only read_uncommitted shows ──


def test_the_last_record_of_a_key_may_be_one_that_was_aborted() -> None:
    lines = "0 a=1\n1 @7 a=2 b=1\n3 @7 abort\n4 b=3"
    facts = text_fold(lines, Rules(compare_isolation=True))
    assert [(each.code, each.offset) for each in facts.sightings] == [("uncommitted-record", 1)]
    assert facts.hidden == 2


def test_views_that_show_the_same_do_not_differ() -> None:
    lines = "0 a=1\n1 @7 a=2 b=1\n3 @7 commit\n4 b=3"
    assert not text_fold(lines, Rules(compare_isolation=True)).counts


UNREADABLE_KEYS: list[Item] = [(b'{"u": 1}', b"1"), (b"not JSON", b"2"), (None, b"3")]


@pytest.mark.parametrize(
    "rules",
    [
        Rules(compare_isolation=True, key="key json:u"),
        Rules(id="value", source="orders", key="key json:u"),
        Rules(value="int", key="key json:u"),
    ],
    ids=["isolation", "order", "value"],
)
def test_a_key_that_cannot_be_read_is_an_error_whatever_is_asked(rules: Rules) -> None:
    with pytest.raises(UnreadableRecord, match="offset 1"):
        fold(log(UNREADABLE_KEYS), rules)
    facts = fold(log(UNREADABLE_KEYS), replace(rules, skip_unreadable=True))
    assert (facts.unreadable, facts.without_key) == (1, 1)


def test_so_it_is_in_a_record_that_only_read_uncommitted_shows() -> None:
    lines = "0 a=1\n1 @7 a=2 b=1\n3 @7 abort\n4 b=3"
    with pytest.raises(UnreadableRecord, match="offset 0"):
        text_fold(lines, Rules(compare_isolation=True, key="key json:u"))
    facts = text_fold(lines, Rules(compare_isolation=True, key="key json:u", skip_unreadable=True))
    assert (facts.records, facts.hidden, facts.unreadable) == (2, 2, 4)


# ── against a source ──


def rows_of(items: Sequence[Item], at: TopicPartition) -> Rows:
    return Rows(decode(log(items)), np.arange(len(items)), at)


@pytest.mark.parametrize("partition", [0, 1])
def test_a_record_without_an_id_does_not_end_the_order_of_its_key(partition: int) -> None:
    source = TopicPartition("orders", partition)
    items: list[Item] = [(b"k", b'{"id": %d}' % number) for number in range(3)]
    order = OrderFold(PARTITION, Rules(id="json:id", source="orders"), SEED)
    order.take_output(rows_of([items[2], (b"k", None), items[1]], PARTITION))
    order.begin_source()
    order.take_source(rows_of(items, source))
    (sighting,), count = order.sightings(10)
    assert (sighting.code, sighting.last_offset, sighting.offset, count) == (
        "order-violation", 0, 2, 1,
    )  # fmt: skip


def test_what_has_no_id_in_the_source_was_not_looked_for() -> None:
    source = TopicPartition("orders", 0)
    items: list[Item] = [(b"k", b'{"id": 1}'), (b"k", None), (b"k", b'{"id": null}')]
    loss = LossFold(source, Rules(id="json:id", source="orders", complete=True), SEED)
    loss.take_source(rows_of(items, source))
    loss.begin_output()
    loss.take_output(rows_of(items[:1], PARTITION))
    assert (loss.missing, loss.judged, loss.unreadable) == (0, 1, 2)


# ── memory ──


def test_more_keys_than_memory_are_taken_in_several_readings() -> None:
    """Every key falls once; each is found once, however often the log is read."""
    keys = [b"key-%d" % number for number in range(60_000)]
    data = log([(key, b"2") for key in keys] + [(key, b"1") for key in keys])
    facts = fold(data, Rules(value="int", id="key"), most_keys=9_000)
    assert facts.counts == {"state-regression": 60_000, "inconsistent-duplicate": 60_000}
    assert facts.keys == facts.ids == 60_000
    assert facts.records == 120_000
    places = {each.identity for each in facts.sightings}
    assert len(places) == len(facts.sightings)


def test_a_stream_that_cannot_be_read_again_says_what_to_raise() -> None:
    folded = Validating(
        PARTITION, Rules(id="key"), start=0, end=END, seed=1, most_keys=9_000, may_read_again=False
    )
    with pytest.raises(ConfigError) as raised:
        folded.take(log([(b"key-%d" % number, b"") for number in range(60_000)]), ())
    assert "--most-keys" in (raised.value.hint or "")


def test_what_a_stream_keeps_is_enough_to_go_on() -> None:
    first, second = log(COUNTS[:3]), log(COUNTS[3:])
    rules = Rules(value="int", id="value")
    one = Validating(PARTITION, rules, start=0, end=END, seed=SEED, may_read_again=False)
    one.go_on(0, 3)
    one.take(first, ())
    other = Validating(PARTITION, rules, start=0, end=END, seed=SEED, may_read_again=False)
    other.remember(one.changes())
    other.go_on(0, 5)
    other.take(second, ())
    assert [(each.last_value, each.value) for each in other.facts().sightings] == [("110", "105")]
    forgetful = Validating(PARTITION, rules, start=0, end=END, seed=SEED, may_read_again=False)
    forgetful.take(second, ())
    assert not forgetful.facts().counts


def test_a_delete_is_kept_though_the_table_has_grown_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that makes room drops what was forgotten; the next process must hear of it."""
    monkeypatch.setattr(state_table, "FIRST_SLOTS", 16)
    rules = Rules(value="int")
    kept: list[dict[str, Any]] = []
    gone: list[Item] = [(b"k", None), *((b"new-%d" % number, b"1") for number in range(100))]
    steps: list[list[Item]] = [[(b"k", b"9")], gone, [(b"k", b"1"), (b"new-7", b"0")]]
    for items in steps:
        one = Validating(PARTITION, rules, start=0, end=END, seed=SEED, may_read_again=False)
        for entries in kept:
            one.remember(entries)
        one.go_on(0, END)
        one.take(log(items), ())
        kept.append({name: entries.copy() for name, entries in one.changes().items()})
    assert [(each.key, each.last_value) for each in one.facts().sightings] == [(b"new-7", "1")]


def test_keys_that_were_deleted_need_no_memory() -> None:
    """Ten times as many as there is room for, a few of them alive at a time."""
    folded = Validating(
        PARTITION, Rules(value="int"), start=0, end=END, seed=1, most_keys=9_000,
        may_read_again=False,
    )  # fmt: skip
    for first in range(0, 100_000, 5_000):
        keys = [b"key-%d" % number for number in range(first, first + 5_000)]
        folded.take(log([*((key, b"1") for key in keys), *((key, None) for key in keys)]), ())
    table = folded.checks["value"].table
    assert not len(table.entries) and table.keys < 20_000


def test_what_is_alive_still_counts_against_the_limit() -> None:
    """The control of the one above: half of them stay."""
    folded = Validating(
        PARTITION, Rules(value="int"), start=0, end=END, seed=1, most_keys=9_000,
        may_read_again=False,
    )  # fmt: skip
    items: list[Item] = []
    for number in range(40_000):
        items += [(b"key-%d" % number, b"1"), (b"key-%d" % (number // 2), None)]
    with pytest.raises(ConfigError, match="more than 9,000 keys"):
        folded.take(log(items), ())


def test_a_step_does_not_hide_what_the_last_one_has_seen_of_later_transactions() -> None:
    """Batches are handed on whole: the first step has read of a transaction that is yet to come."""
    lines = "0 k=1\n1 @7 k=9\n2 @7 commit\n3 @7 k=2\n4 k=5\n5 @7 abort"
    replica = TextReplica(1, lines.splitlines())
    batches = replica.batches()
    folded = Validating(PARTITION, Rules(value="int"), start=0, end=0, seed=SEED)
    aborted = replica.aborted(0, 5)
    folded.go_on(0, 1)
    folded.take(b"".join(batches[:5]), aborted)  # to offset 4, without the marker
    folded.go_on(1, 6)
    folded.take(b"".join(batches[1:]), aborted)
    facts = folded.facts()
    assert told(facts) == [("state-regression", b"k", "9", "5", 1, 4)]
    assert (facts.records, facts.hidden) == (2, 1)


def test_a_batch_that_cannot_be_read_is_named() -> None:
    data = bytearray(log([(b"a", b"1"), (b"a", b"2")]))
    data[-3] ^= 1
    facts = fold(bytes(data), Rules(value="int"))
    assert [each.offset for each in facts.damage] == [0] and "checksum" in facts.damage[0].why


def test_facts_survive_being_sent() -> None:
    facts = fold(log(COUNTS), Rules(value="int"))
    assert PartitionFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
    sighting = facts.sightings[0]
    assert Sighting.from_json(sighting.to_json()).identity == "state-regression/t-0/2-3"


def test_an_identity_tells_two_sightings_apart() -> None:
    here = Sighting("duplicate-record", PARTITION, None, b"1", "", "", 5, 9, 0)
    there = Sighting("duplicate-record", PARTITION, None, b"1", "", "", 5, 9, 3)
    assert here.identity == "duplicate-record/t-0/5-9"
    assert there.identity == "duplicate-record/t-0/3:5-9"
    rows_without_offsets = [
        Sighting("table-stale-row", PARTITION, key, None, "", "", -1, -1, 0) for key in (b"a", b"b")
    ]
    assert len({each.identity for each in rows_without_offsets}) == 2
    assert "key-" in rows_without_offsets[0].identity
