"""As many messages wait as may: are rows left where they are until there are fewer?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sexton.spark import Message
from sexton.spark.retry_attempt import Pipeline
from sexton.spark.retry_batch import Stopped
from sexton.testing.embedded import EmbeddedCluster
from tests.spark.retry_pipelines import Driver, handle, locks, outputs, pipeline
from tests.spark.sink_faults import Injected, fail_at, trouble


class Commits:
    """A probe in the driver: which batches were committed."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, step: str, batch: int) -> None:
        if step == "committed":
            self.seen.append(batch)


def with_room_for(count: int, ours: Pipeline) -> Pipeline:
    return replace(ours, settings=replace(ours.settings, max_pending=count))


def test_rows_are_not_taken_while_too_many_wait(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """1 and 7 wait in one partition, and 8 in the other: the first is full if two may."""
    ours = with_room_for(2, pipeline(three, "full"))
    first = Commits()
    Driver(spark, ours, first).run(0, range(12))
    assert first.seen == [0]
    # Who dies between the retries and the rows has settled the former, and not taken the latter.
    with pytest.raises(Injected):
        Driver(spark, ours, fail_at("committed", tmp_path / "died", batch=0)).run(1, range(12, 24))
    assert set(locks(three, ours)) < {b"full-1-0", b"full-1-3", b"full-0-4"}
    second = Commits()
    last = Driver(spark, ours, second)
    last.run(1, range(12, 24))
    assert second.seen[-1] == 1 and set(second.seen[:-1]) <= {0}
    last.settle(2)
    assert locks(three, ours) == {}
    assert trouble(outputs(three, "full"), 24) == ["lost: [15]"]  # a dead letter


def test_with_room_for_more_they_are_taken(spark: SparkSession, three: EmbeddedCluster) -> None:
    """The control: the same rows."""
    ours = with_room_for(3, pipeline(three, "roomy"))
    commits = Commits()
    driver = Driver(spark, ours, commits)
    driver.run(0, range(12))
    driver.run(1, range(12, 24))
    assert commits.seen == [0, 1]


def test_a_query_can_be_stopped_while_it_waits(spark: SparkSession, three: EmbeddedCluster) -> None:
    def never(message: Message) -> bytes | None:
        if message.value == b"1":
            raise ConnectionError("the service is down")
        return handle(message)

    ours = with_room_for(2, pipeline(three, "stopped"))
    patient = replace(ours, handler=never, settings=replace(ours.settings, max_attempts=1000))
    driver = Driver(spark, patient, is_active=lambda: False)
    driver.run(0, range(12))
    with pytest.raises(Stopped):
        driver.run(1, range(12, 24))
    seen = {int(value or b"") for *_, value in outputs(three, "stopped")}
    assert seen & set(range(12, 24)) == set()
    last = Driver(spark, ours)
    last.run(1, range(12, 24))
    last.settle(2)
    assert trouble(outputs(three, "stopped"), 24) == ["lost: [15]"]
