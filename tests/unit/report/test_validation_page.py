"""A validation in every form: none of them hides what was not read, or shows what it must not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sexton.audit.remedies import runbook
from sexton.audit.validation import PartitionFacts, Rules, Sighting
from sexton.audit.validation_words import MEANINGS, REMEDIES
from sexton.base.partitions import TopicPartition
from sexton.report.validation_files import FINDINGS, finding_rows
from sexton.report.validation_html import html_page
from sexton.report.validation_page import (
    ValidationPage,
    finding_of,
    in_reading_order,
    left_out,
    promises,
    verdict_sentence,
)
from sexton.report.validation_text import sighting_lines, verdict_lines
from tests.unit.test_house import ROOT

AT = TopicPartition("counts", 17)
FALL = Sighting(
    "state-regression", AT, b"key_17", None, "110", "105", 2, 4, 17, 1_700_000_000_000, 7, 1,
    1_700_000_000_000, 7, 0,
)  # fmt: skip


def page(*sightings: Sighting, counts: Mapping[str, int] | None = None, **more: Any) -> Any:
    told = dict(counts or {})
    for each in sightings:
        told.setdefault(each.code, 1)
    judged = {"value": 5}
    facts = PartitionFacts(AT, 0, 6, 5, 400, 1, 0, 0, 0, 0, -1, told, sightings, judged=judged)
    chosen: dict[str, Any] = {"rules": Rules(value="int"), "partitions": (facts,), **more}
    return ValidationPage(
        version="1", cluster_id="c", bootstrap="localhost:9092", topic="counts",
        sightings=sightings, counts=told, started_ms=0, finished_ms=1500, **chosen,
    )  # fmt: skip


def test_every_code_has_a_meaning_a_remedy_and_a_page() -> None:
    assert set(MEANINGS) == set(REMEDIES)
    for code in MEANINGS:
        assert (ROOT / runbook(code)).exists(), code
        assert f"[`{code}`]" in (ROOT / "docs/reference/findings.md").read_text(encoding="utf-8")


def test_the_words_are_those_of_the_first_report() -> None:
    told = finding_of(FALL, page(FALL, show_keys=True))
    words = "Partition: 17, Key: key_17, LastValue: 110, NewValue: 105"
    assert told.message == f"a value went back (read_committed). {words}"
    lines = sighting_lines(FALL, page(FALL, show_keys=True))
    assert f"         {words}" in lines
    assert any(line.endswith("← another epoch of it") for line in lines)


def test_a_long_topic_is_told_between_words() -> None:
    """A terminal breaks a line that is too long in the middle of a word."""
    at = TopicPartition("orders-of-all-customers-by-country-of-delivery.v1", 17)
    told = replace(FALL, partition=at)
    lines = sighting_lines(told, page(told), 80)
    assert max(map(len, lines)) <= 80
    assert lines[:2] == ["error    state-regression", f"         {at} offset 4"]
    assert "LastValue: 110" in "\n".join(lines)


def test_a_long_topic_does_not_stretch_the_tiles() -> None:
    """It has a row of its own; the control: a short one stands beside the figures."""
    long = replace(page(FALL), topic="orders-of-all-customers-by-country")
    assert '<div class="wide"><dt>topic</dt>' in html_page(long)
    assert "<div><dt>topic</dt>" in html_page(page(FALL))


def test_an_isolation_level_that_nobody_knows_is_not_named() -> None:
    """The control: that of records which we have read ourselves is."""
    assert finding_of(FALL, page(FALL)).evidence["isolation"] == "read_committed"
    told = finding_of(FALL, page(FALL, read_by_us=False))
    assert told.message.startswith("a value went back. Partition: 17,")
    assert "isolation" not in told.evidence


def test_keys_are_digests_unless_they_are_asked_for() -> None:
    hidden = page(FALL)
    everything = (
        html_page(hidden) + "\n".join(sighting_lines(FALL, hidden)) + str(finding_rows(hidden))
    )
    assert "key_17" not in everything and "sha256:" in everything


@pytest.mark.parametrize(
    ("more", "standing", "words"),
    [
        ({}, "kept", "counts is what was promised."),
        ({"limits": ("Only since 1h.",)}, "kept", "in all that was looked at"),
        ({"incomplete": (("counts-3", "gone"),)}, "incomplete", "not everything could be read"),
        ({"partitions": ()}, "unread", "Nothing was read"),
        ({"rules": Rules(id="int")}, "unread", "nothing could be judged of: comes once (int)"),
        ({"acknowledged": 2}, "kept", "apart from 2 acknowledged findings"),
    ],
)
def test_a_verdict_says_what_it_rests_on(more: dict[str, Any], standing: str, words: str) -> None:
    told = page(**more)
    assert told.standing == standing and words in verdict_sentence(told)
    assert words in html_page(told)


def test_a_promise_is_kept_if_something_was_judged_by_it() -> None:
    told = page(rules=Rules(value="int", id="json:id", source="s"), compared={"source": 3})
    assert [each.kept for each in promises(told)] == [True, None, True]
    assert told.standing == "unread"


def test_one_record_is_not_several() -> None:
    facts = PartitionFacts(AT, 0, 1, 1, 40, 0, 0, 0, 1, 1, 7, {}, ())
    assert list(left_out([facts])) == [
        (
            "1 record in which an expression found nothing was left out, "
            "the first at counts-17, offset 7."
        ),
        "1 record without a key was left out of what holds per key.",
    ]
    several = replace(facts, without_key=2_000)
    assert list(left_out([several]))[1].startswith("2,000 records without a key were left out")
    assert any(
        "read 1 record, 40 B of" in line for line in verdict_lines(page(partitions=(facts,)))
    )


def test_a_reason_that_many_partitions_share_is_told_once() -> None:
    parts = tuple((f"counts-{number}", "broker 3: is not up") for number in range(9))
    told = html_page(page(incomplete=parts))
    assert "<li><b>counts-0, counts-1, counts-2 and 6 more</b>: broker 3: is not up</li>" in told
    assert "counts-3" not in told


def test_what_was_found_goes_before_what_could_not_be_read() -> None:
    told = page(FALL, incomplete=(("counts-3", "gone"),))
    assert told.standing == "broken"
    assert "Not everything could be read." in verdict_sentence(told)
    assert "gone" in html_page(told)
    assert any("note: x" in line for line in verdict_lines(page(limits=("x",))))


def test_promises_are_counted_apart() -> None:
    rules = Rules(value="int", sequence="json:n", id="json:id", source="s", compare_isolation=True)
    counts = {"duplicate-record": 2, "inconsistent-duplicate": 1, "key-sequence-gap": 4}
    told = page(counts=counts, rules=rules, table="/lake/t")
    kept = {each.what: each.findings for each in promises(told)}
    assert kept == {
        "per key, never goes back": 0,
        "per key, one more each time": 4,
        "comes once": 3,
        "in the order of s": 0,
        "read_uncommitted shows the same": 0,
        "the table is the topic": 0,
    }


def test_what_does_the_most_harm_is_read_first() -> None:
    gap = Sighting("key-sequence-gap", AT, b"k", None, "1", "3", 0, 1, 17)
    assert in_reading_order(page(gap, FALL)) == [FALL, gap]


def test_a_key_cannot_write_html() -> None:
    evil = Sighting("state-regression", AT, b"<script>alert(1)</script>", None, "2", "1", 0, 1, 17)
    assert "<script" not in html_page(page(evil, show_keys=True))


def test_rows_have_the_columns_they_should() -> None:
    (row,) = finding_rows(page(FALL))
    assert len(row) == len(FINDINGS)
