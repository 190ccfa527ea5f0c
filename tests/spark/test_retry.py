"""Does a row that fails block its key and nothing else, and is every output there once, in order?

Most batches here are made by hand: rows with their places in the topic, as a stream would give
them, so that a test says which rows come together and where a driver dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.machines.retry_records import Command, LockRecord, TaskName, command_record
from sexton.machines.retry_rounds import Outcome
from sexton.machines.retry_settings import Backoff, Settings
from sexton.retry import Dead, Drop, Retry
from sexton.spark import Message, Output
from sexton.spark.retry import pipeline_of
from sexton.spark.retry_attempt import Pipeline
from sexton.spark.retry_batch import RetryBatches
from sexton.spark.retry_handling import outcome_of, outputs_of
from sexton.spark.retry_tick import Alarm, TickReader, now_ms
from sexton.spark.sink_protocol import Probe, unwatched
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.spark.sink_faults import Injected, committed, fail_at, trouble

KEYS, ROWS = 6, 24  # 0 is of key-0 and at offset 0 of partition 0, 1 of key-1 in partition 1, ...
FAILS = {1: 1, 8: 2, 15: 99, 20: 1}  # how often
SETTINGS = Settings(max_attempts=3, backoff=Backoff(50, jitter=0.0), ids_per_task=True)
COLUMNS = "key binary, value binary, partition int, offset bigint, timestamp timestamp"


def handle(message: Message) -> bytes | None:
    number = int(message.value or b"")
    assert message.id.endswith(f"-{number % 2}-{number // 2}")
    if message.attempts < FAILS.get(number, 0):
        raise ValueError(f"not {number} yet")
    return message.value


def pipeline(
    cluster: EmbeddedCluster, topic: str, handler: Callable[[Message], Any] = handle
) -> Pipeline:
    for name in (topic, f"{topic}-out"):
        cluster.create_topic(name, [[1, 2, 3], [2, 3, 1]])
    return pipeline_of(
        handler, topic=topic, output_topic=f"{topic}-out", settings=SETTINGS,
        bootstrap_servers=cluster.bootstrap_servers,
    )  # fmt: skip


class Driver:
    """Batches by hand. A new one knows nothing but what Kafka has."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, probe: Probe = unwatched) -> None:
        self._spark = spark
        self._alarm = Alarm()
        self._batches = RetryBatches(
            replace(pipeline, sink=replace(pipeline.sink, probe=probe, attempts=1)), self._alarm
        )
        self._batches.belongs_to("query")

    def run(self, number: int, rows: Iterable[int]) -> None:
        noon = datetime(2024, 6, 1, 12, tzinfo=UTC)
        told = [(f"key-{n % KEYS}".encode(), str(n).encode(), n % 2, n // 2, noon) for n in rows]
        self._batches(self._spark.createDataFrame(told, COLUMNS), number)

    def settle(self, number: int) -> int:
        """Batches without rows, when they are due, until nothing waits; the number of the next."""
        while self._alarm.path.read_text():
            until(self._is_due, "the time of a retry")
            self.run(number, ())
            number += 1
        return number

    def _is_due(self) -> bool:
        return now_ms() >= int(self._alarm.path.read_text())


def outputs(cluster: EmbeddedCluster, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    return committed(cluster, f"{topic}-out", 2)


def locks(cluster: EmbeddedCluster, ours: Pipeline) -> dict[bytes | None, LockRecord]:
    held: dict[bytes | None, LockRecord] = {}
    for _partition, key, value in committed(cluster, ours.topics.locks, 2):
        held.pop(key, None)
        if value is not None:
            held[key] = LockRecord.decode(value)
    return held


def test_a_failing_row_blocks_its_key_whoever_dies_on_the_way(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    ours = pipeline(three, "storm")
    Driver(spark, ours).run(0, range(12))
    # 1 and 8 have failed; 7 waits behind 1 (key-1), and nobody behind 8 (key-2). All others flow.
    assert sorted(int(value or b"") for *_, value in outputs(three, "storm")) == [
        0, 2, 3, 4, 5, 6, 9, 10, 11
    ]  # fmt: skip
    held = locks(three, ours)
    assert {key: (lock.attempts, lock.key) for key, lock in held.items()} == {
        b"storm-1-0": (1, b"key-1"),
        b"storm-1-3": (0, b"key-1"),
        b"storm-0-4": (1, b"key-2"),
    }
    # A driver dies before it commits, the next one after that: its successor finds it done.
    for step in ("answered", "committed"):
        with pytest.raises(Injected):
            Driver(spark, ours, fail_at(step, tmp_path / step, batch=1)).run(1, range(12, 24))
    last = Driver(spark, ours)
    last.run(1, range(12, 24))
    last.settle(2)
    assert locks(three, ours) == {}
    assert trouble(outputs(three, "storm"), ROWS) == ["lost: [15]"]
    ((partition, key, value),) = committed(three, ours.topics.dead, 2)
    assert (partition, key, value) == (1, b"key-3", b"15")


def test_without_redirection_rows_overtake_each_other(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    """The control: the same rows and failures, and a row behind one that failed is run."""
    driver = Driver(spark, replace(pipeline(three, "overtaken"), redirects=False))
    driver.run(0, range(12))
    driver.run(1, range(12, 24))
    driver.settle(2)
    wrong = trouble(outputs(three, "overtaken"), ROWS)
    assert "1 after 7" in wrong, wrong


def test_an_operator_frees_a_held_key(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """3 reaches its ceiling and holds key-3, where 9 waits behind it."""
    down = tmp_path / "down"
    down.touch()

    def handle(message: Message) -> list[Output]:
        if message.value == b"3" and down.exists():
            raise Dead("the service does not know 3")
        return [Output(message.value, message.key, (("by", b"test"),))]

    ours = pipeline(three, "held", handle)
    ours = replace(ours, settings=replace(ours.settings, at_ceiling="held"))
    driver = Driver(spark, ours)
    driver.run(0, range(12))
    assert locks(three, ours)[b"held-1-1"].dead
    ((_, _, letter),) = committed(three, ours.topics.dead, 2)
    assert letter == b"3"
    down.unlink()
    told = command_record(TaskName("held", 1), Command("redrive", 1), "token")
    asyncio.run(tell(three, TopicPartition(ours.topics.retry, 1), told))
    driver.run(1, ())  # obeys it
    driver.settle(2)
    assert locks(three, ours) == {}
    assert trouble(outputs(three, "held"), 12) == []


async def tell(cluster: EmbeddedCluster, at: TopicPartition, told: tuple[bytes, bytes]) -> None:
    async with Client(cluster.bootstrap_servers) as client:
        await append(client, at, [told])


def test_a_reader_ticks_when_a_retry_is_due() -> None:
    alarm = Alarm()
    reader = TickReader(alarm.path)
    begun = reader.initialOffset()
    first = reader.latestOffset(begun, None)  # type: ignore[arg-type]
    assert first["tick"] > begun["tick"]  # a run begins with one
    alarm.set(now_ms() + 3_600_000)
    assert reader.latestOffset(first, None) == first  # type: ignore[arg-type]
    alarm.set(None)
    assert reader.latestOffset(first, None) == first  # type: ignore[arg-type]
    reader.prepareForTriggerAvailableNow()
    alarm.set(now_ms() - 1)
    assert reader.latestOffset(first, None)["tick"] > first["tick"]  # type: ignore[arg-type]


def test_what_a_handler_says_is_understood() -> None:
    mapped = {ValueError: Dead, LookupError: Drop}
    assert outcome_of(Retry("later"), mapped) is Outcome.RETRY
    assert outcome_of(Dead("never"), {}) is Outcome.DEAD
    assert outcome_of(KeyError("k"), mapped) is Outcome.DROP
    assert outcome_of(UnicodeError("u"), mapped) is Outcome.DEAD
    assert outcome_of(OSError("o"), mapped) is Outcome.RETRY
    assert outputs_of(None, b"k") == []
    assert outputs_of([b"1", Output("2", "other")], b"k") == [
        Output(b"1", b"k"),
        Output("2", "other"),
    ]
    with pytest.raises(TypeError):
        outputs_of([3], b"k")


def test_what_cannot_work_is_refused_with_words() -> None:
    where: dict[str, Any] = {
        "topic": "a", "output_topic": "b", "settings": SETTINGS, "bootstrap_servers": "kafka:9092",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="must be different"):
        pipeline_of(handle, **{**where, "output_topic": "a"})
    with pytest.raises(ConfigError, match="ValueError becomes"):
        pipeline_of(handle, errors={ValueError: KeyError}, **where)
    with pytest.raises(ConfigError, match="cannot be the name of a topic"):
        pipeline_of(handle, retry_topic="a b", **where)
