from __future__ import annotations

from dataclasses import replace

import pytest

from sexton.audit.finding import AuditFinding
from sexton.report.audit_page import AuditPage, Standing, topics
from sexton.report.audit_words import began, key_text, verdict_sentence, who_is_right
from sexton.report.quantities import duration
from tests.unit.report.audit_examples import (
    ABORTED,
    CLEAN,
    CORRUPT,
    GAP,
    HANGING,
    HOUR,
    MISMATCH,
    NOON,
    PAGE,
    TOMBSTONE,
)

UNREAD = PAGE.incomplete
ALONE = replace(
    CLEAN.partitions[0], replicas=CLEAN.partitions[0].replicas[:1], assigned=(1,)
)  # fmt: skip


@pytest.mark.parametrize(
    ("page", "standing"),
    [
        (CLEAN, "agree"),
        (replace(CLEAN, incomplete=UNREAD), "incomplete"),
        (replace(CLEAN, findings=(TOMBSTONE,), incomplete=UNREAD), "differ"),
        (replace(CLEAN, findings=(HANGING,)), "unsound"),
        (replace(CLEAN, findings=(HANGING, TOMBSTONE)), "differ"),
        (replace(CLEAN, findings=(CORRUPT,)), "unsound"),
        (replace(CLEAN, findings=(replace(CORRUPT, replicas=(1, 2)),)), "differ"),
        (replace(CLEAN, findings=(GAP,)), "agree"),  # a note only informs
        (replace(CLEAN, partitions=()), "unread"),
        (replace(CLEAN, partitions=(ALONE,)), "alone"),
        (replace(CLEAN, partitions=(ALONE, *CLEAN.partitions)), "agree"),
    ],
)
def test_a_page_stands_as_badly_as_the_worst_on_it(page: AuditPage, standing: Standing) -> None:
    assert page.standing == standing


def test_one_sentence_says_how_it_stands() -> None:
    assert verdict_sentence(CLEAN) == "The replicas agree."
    assert verdict_sentence(replace(CLEAN, limits=("A tenth was read.",), acknowledged=1)) == (
        "The replicas agree in all that was compared, apart from 1 acknowledged finding."
    )
    assert verdict_sentence(replace(CLEAN, findings=(TOMBSTONE, HANGING, GAP))) == (
        "The replicas do not agree: 1 key and 1 transaction in 2 of 4 topics."
    )
    orders_only = replace(CLEAN, findings=(TOMBSTONE,), partitions=CLEAN.partitions[:2])
    assert verdict_sentence(orders_only) == "The replicas do not agree: 1 key in orders."
    assert verdict_sentence(replace(CLEAN, findings=(HANGING,))).startswith(
        "The replicas agree, but something is wrong: 1 transaction"
    )


def test_nobody_is_told_that_replicas_agree_which_were_not_read() -> None:
    said = verdict_sentence(replace(CLEAN, incomplete=UNREAD))
    assert "agree" not in said
    assert "not everything could be read" in said
    assert "agree" not in verdict_sentence(replace(CLEAN, partitions=()))
    assert verdict_sentence(PAGE).endswith("Not everything could be read.")


def test_nobody_is_told_that_one_replica_agrees() -> None:
    assert "agree" not in verdict_sentence(replace(CLEAN, partitions=(ALONE,)))
    both = verdict_sentence(replace(CLEAN, partitions=(ALONE, *CLEAN.partitions)))
    assert both.endswith("1 partition has one replica: nothing to compare.")


def test_topics_come_worst_first_with_what_is_theirs() -> None:
    found = topics(PAGE)
    assert [(each.topic, each.standing) for each in found] == [
        ("orders", "differ"),
        ("payments", "differ"),
        ("events", "unsound"),
        ("customers", "incomplete"),
    ]
    assert [len(each.findings) for each in found] == [2, 4, 3, 0]
    assert len(found[0].partitions) == 2
    assert len(found[0].replicas) == 6


def test_who_is_right_is_said_with_how_sure_that_is() -> None:
    assert who_is_right(TOMBSTONE, PAGE) == "brokers 1 and 2 (certain)"
    assert who_is_right(MISMATCH, PAGE) == "cannot be known"
    one = replace(ABORTED, verdict=replace(ABORTED.verdict, right=(2,), certainty="likely"))
    assert who_is_right(one, PAGE) == "broker 2 (likely)"
    assert who_is_right(one, replace(PAGE, offline=True)) == "copy 2 (likely)"


@pytest.mark.parametrize(
    ("after", "before", "said"),
    [
        (NOON, NOON + HOUR, "between 2026-11-15 12:00:00 UTC and 2026-11-15 13:00:00 UTC"),
        (NOON, None, "after 2026-11-15 12:00:00 UTC"),
        (None, NOON, "before 2026-11-15 12:00:00 UTC"),
        (None, None, "not known"),
        (None, 2**62, f"before {2**62} ms"),  # no calendar has it
    ],
)
def test_since_when_is_said_as_far_as_it_is_known(
    after: int | None, before: int | None, said: str
) -> None:
    finding: AuditFinding = replace(TOMBSTONE, began_after_ms=after, began_before_ms=before)
    assert began(finding) == said


def test_a_key_is_a_digest_unless_asked_for() -> None:
    # printf k | sha256sum
    assert key_text(b"k", PAGE) == "sha256:8254c329a92850f6d539dd376f4816ee/1"
    assert key_text(b"k", replace(PAGE, show_keys=True)) == "k"
    assert key_text(None, PAGE) is None


def test_durations_are_said_in_fitting_units() -> None:
    assert [duration(ms) for ms in (0, 1_250, 83_000, 7_260_000)] == [
        "0.0 s", "1.2 s", "1 min 23 s", "2 h 1 min",
    ]  # fmt: skip
