"""What does the sink do about a batch, given the marker that it finds?"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from sexton.base.partitions import TopicPartition
from sexton.client.transacting import Committed
from sexton.spark.batch_plans import NOT_YET, UNTOLD
from sexton.spark.sink_marker import Batch, Marker, SinkRefused, elsewhere, is_to_write
from sexton.spark.sink_memory import USUAL_MS, is_older

SEVEN = Batch("orders", 7, query="q1", run="r2")


def marker(batch: int, query: str = "q1", run: str = "r1") -> Marker:
    return Marker(batch, query, run, rows=10)


def test_the_next_batch_is_written_and_the_last_is_not_written_again() -> None:
    assert is_to_write(SEVEN, marker(6))
    assert not is_to_write(SEVEN, marker(7))
    assert is_to_write(replace(SEVEN, number=0), None)
    assert not is_to_write(replace(SEVEN, number=0), marker(0))


@pytest.mark.parametrize("last", [0, 5, 8, 100])
def test_any_other_marker_is_refused(last: int) -> None:
    with pytest.raises(SinkRefused, match=f"up to {last}") as caught:
        is_to_write(SEVEN, marker(last))
    assert caught.value.hint


def test_a_marker_that_is_gone_is_not_taken_for_the_beginning() -> None:
    with pytest.raises(SinkRefused, match="no marker") as caught:
        is_to_write(SEVEN, None)
    assert "offsets.retention.minutes" in str(caught.value.hint)
    assert "after_batch=6" in str(caught.value.hint)
    assert is_to_write(replace(SEVEN, after=6), None)
    assert not is_to_write(replace(SEVEN, after=7), None)
    with pytest.raises(SinkRefused):
        is_to_write(replace(SEVEN, after=6), marker(3))  # what Kafka says goes before


def test_a_first_batch_that_kafka_may_have_forgotten_is_not_taken_for_new() -> None:
    first = replace(SEVEN, number=0, may_be_forgotten=True)
    with pytest.raises(SinkRefused, match="may be in the topic, or not") as caught:
        is_to_write(first, None)
    assert "after_batch=-1" in str(caught.value.hint)
    assert "after_batch=0" in str(caught.value.hint)
    assert is_to_write(replace(first, after=-1), None)
    assert not is_to_write(replace(first, after=0), None)
    assert not is_to_write(first, marker(0))


def test_a_plan_is_as_old_as_kafka_remembers_or_it_is_not() -> None:
    now_ms = time.time_ns() // 1_000_000
    old = replace(SEVEN, planned_ms=now_ms - USUAL_MS)
    assert is_older(old, None) and is_older(old, USUAL_MS // 2)
    assert not is_older(old, 2 * USUAL_MS)
    assert not is_older(replace(SEVEN, planned_ms=now_ms), None)
    for nobody_knows in (UNTOLD, NOT_YET):
        assert not is_older(replace(SEVEN, planned_ms=nobody_knows), 1)


def test_a_marker_at_another_place_is_found_among_other_offsets() -> None:
    here, there = TopicPartition("here", 0), TopicPartition("there", 0)
    kept = marker(6).to_committed()
    position = Committed(17, "somebody's")
    assert elsewhere(SEVEN, here, {here: kept, there: position}, "g") is None
    refusal = elsewhere(SEVEN, here, {here: position, there: kept}, "g")
    assert refusal is not None
    assert "batch 6, is kept by the topic there" in refusal.why
    assert "marker_topic='there'" in str(refusal.hint)


def test_a_checkpoint_that_was_changed_is_refused() -> None:
    for last in (6, 7):
        with pytest.raises(SinkRefused, match=r"query q0 .* this is q1: it has another checkpoint"):
            is_to_write(SEVEN, marker(last, query="q0"))


def test_two_drivers_are_told_from_one_that_took_over() -> None:
    for last in (6, 7):
        is_to_write(SEVEN, marker(last, run="r1"))  # the driver before this one
        at_work = replace(SEVEN, committed_before=True)
        is_to_write(at_work, marker(last, run="r2"))
        with pytest.raises(SinkRefused, match="another driver has committed"):
            is_to_write(at_work, marker(last, run="r1"))


def test_a_batch_that_was_planned_anew_is_not_taken_for_the_one_that_is_there() -> None:
    """A checkpoint was restored as it was just before: what has come since is not in the topic."""
    planned = replace(SEVEN, planned_ms=1_000)
    assert not is_to_write(planned, replace(marker(7), planned_ms=1_000))
    assert is_to_write(planned, replace(marker(6), planned_ms=900))
    assert not is_to_write(planned, marker(7))  # written before there was this note
    assert not is_to_write(SEVEN, replace(marker(7), planned_ms=1_000))
    for again_ms in (NOT_YET, 1_001):
        with pytest.raises(SinkRefused, match="planned it anew") as caught:
            is_to_write(replace(SEVEN, planned_ms=again_ms), replace(marker(7), planned_ms=1_000))
        assert "newest checkpoint" in str(caught.value.hint)


def test_a_marker_survives_being_committed() -> None:
    written = replace(marker(6), at_ms=7, planned_ms=5)
    assert Marker.from_committed(written.to_committed(), "g") == written
    assert Marker.from_committed(None, "g") is None


@pytest.mark.parametrize("metadata", ["", "{}", "[1]", '{"query": "q", "run": "r"}'])
def test_an_offset_of_somebody_else_is_no_marker(metadata: str) -> None:
    with pytest.raises(SinkRefused, match="somebody else"):
        Marker.from_committed(Committed(6, metadata), "g")
