"""What goes wrong without each of the rules, and that it does not with them."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sexton.base.errors import PeerError
from sexton.spark import Message
from sexton.spark.retry_attempt import Pipeline
from sexton.spark.retry_rules import RETRY_RULES, RetryRules
from sexton.spark.sink_protocol import Rules
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.spark.retry_pipelines import Driver, handle, locks, outputs, pipeline
from tests.spark.sink_faults import Injected, fail_at, trouble


def test_without_redirection_rows_overtake_each_other(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    ours = replace(pipeline(three, "overtaken"), rules=RetryRules(redirects=False))
    driver = Driver(spark, ours)
    driver.run(0, range(12))
    driver.run(1, range(12, 24))
    driver.settle(2)
    assert "1 after 7" in trouble(outputs(three, "overtaken"), 24)


def test_a_driver_that_does_not_read_what_waits_overtakes_it(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    """13 is of key-1, for which 1 waits. `test_retry` has the same with a driver that reads it."""
    ours = pipeline(three, "forgetful")
    Driver(spark, ours).run(0, range(12))
    Driver(spark, replace(ours, rules=RetryRules(remembers=False))).run(1, range(12, 24))
    seen = [int(value or b"") for _partition, key, value in outputs(three, "forgetful")]
    assert 13 in seen and 1 not in seen


@pytest.mark.parametrize("keeps", [True, False])
def test_what_a_handler_said_is_what_is_written(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, keeps: bool
) -> None:
    """A handler that works once for each row: asked again, it fails, and notes are of the first."""
    topic = f"kept-{keeps}".lower()

    def once(message: Message) -> bytes | None:
        try:
            (tmp_path / str(message.offset * 2 + message.partition)).mkdir()
        except FileExistsError:
            raise ValueError("it has done that") from None
        return message.value

    ours = replace(pipeline(three, topic, once), rules=RetryRules(keeps=keeps))
    Driver(spark, ours).run(0, range(12))
    wrong = trouble(outputs(three, topic), 12)
    assert wrong == [] if keeps else wrong == ["lost: [0, 1, 2, 3, 4]"]


@pytest.mark.parametrize("unchanged", [True, False])
def test_a_driver_that_was_overtaken_writes_nothing(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, unchanged: bool
) -> None:
    """Two that take over at once, while a partition is full: both run what waits, one writes it."""
    topic = f"overtaken-{unchanged}".lower()
    at_it, go = tmp_path / "at-it", tmp_path / "go"

    def handle_slowly(message: Message) -> bytes | None:
        at_it.touch()
        until(go.exists, "the other driver", 240)
        return handle(message)

    ours = pipeline(three, topic)
    ours = replace(ours, settings=replace(ours.settings, max_pending=2))
    first = Driver(spark, ours)
    first.run(0, range(12))  # 1 and 7 wait in one partition, 8 in the other
    until(first.is_due, "the time of their retries")
    late = Late(
        Driver(spark, replace(ours, handler=handle_slowly, rules=RetryRules(unchanged=unchanged)))
    )
    late.start()
    until(at_it.exists, "a driver that runs what waits", 240)
    with pytest.raises(Injected):  # the other one dies when it has settled them
        Driver(spark, ours, fail_at("committed", tmp_path / "died", batch=0)).run(1, ())
    go.touch()
    late.join(240)
    wrong = trouble(outputs(three, topic), 12)
    if unchanged:
        assert isinstance(late.error, PeerError) and "another driver" in str(late.error)
        # 8 has failed a second time, by the word of the other one.
        assert wrong == ["lost: [8]"]
        assert {key: lock.attempts for key, lock in locks(three, ours).items()} == {
            f"{topic}-0-4".encode(): 2
        }
    else:
        assert any(each.startswith("twice") for each in wrong), (wrong, late.error)


class Late(threading.Thread):
    """Takes a batch up, and is not done with it when another driver does the same."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(daemon=True)
        self._driver = driver
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._driver.run(1, ())
        except Exception as error:  # noqa: BLE001  it is what the test is about
            self.error = error


def test_without_a_marker_what_was_written_is_written_again(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    """The sink's rule: a driver that Spark gives a batch again that is there."""
    ours = pipeline(three, "again")
    Driver(spark, ours).run(0, range(12))
    Driver(spark, ours).run(0, range(12))
    assert trouble(outputs(three, "again"), 0) == []
    blind = replace(ours, sink=replace(ours.sink, rules=Rules(is_to_write=lambda *_: True)))
    Driver(spark, blind).run(0, range(12))
    assert any(each.startswith("twice") for each in trouble(outputs(three, "again"), 0))


def test_nobody_else_has_other_rules(three: EmbeddedCluster) -> None:
    ours: Pipeline = pipeline(three, "as-is")
    assert ours.rules is RETRY_RULES and ours.rules == RetryRules(True, True, True, True, True)
