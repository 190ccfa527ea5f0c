"""Are our own tasks run by Spark, each answered once, and is none lost without a word?"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sexton.spark.tasks import TaskFailed, TasksFailed, run_on_spark
from tests.spark.jobs import patient, picky, square


def test_results_come_with_their_numbers(spark: SparkSession) -> None:
    found = dict(run_on_spark(spark, range(10, 16), square))
    assert {number: result[0] for number, result in found.items()} == {
        number: (number + 10) ** 2 for number in range(6)
    }
    assert os.getpid() not in {process for _, process in found.values()}
    assert list(run_on_spark(spark, [], square)) == []


def test_one_failure_does_not_end_the_others(spark: SparkSession) -> None:
    found: list[tuple[int, int]] = []
    with pytest.raises(TasksFailed, match="1 of 5 failed; task 2: ValueError: two is") as caught:
        found += run_on_spark(spark, range(5), picky)
    assert "in picky" in caught.value.failures[0].trace


def test_results_are_given_before_the_failures_are_raised(spark: SparkSession) -> None:
    found: list[tuple[int, int]] = []
    told: list[TaskFailed] = []
    found += run_on_spark(spark, range(4), picky, failed=told.append)
    assert sorted(found) == [(0, 0), (1, 1), (3, 3)]
    assert [each.number for each in told] == [2]


def test_whoever_stops_early_gets_rid_of_the_rest(spark: SparkSession) -> None:
    results = run_on_spark(spark, range(12), square)
    assert next(results)[1][0] >= 0
    results.close()  # type: ignore[attr-defined]
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_nor_has_to_wait_for_jobs_that_were_on_their_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    """When the first task is done, most of the others are just being handed to Spark."""
    results = run_on_spark(spark, [str(tmp_path)] * 100, patient)
    next(results)
    with ThreadPoolExecutor(1) as beside:
        closing = beside.submit(results.close)  # type: ignore[attr-defined]
        try:
            closing.result(30)
        finally:
            (tmp_path / "goes-on").touch()
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
