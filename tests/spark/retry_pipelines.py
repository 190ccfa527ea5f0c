"""Retry pipelines whose batches are made by hand.

Rows come with their places in the topic, as a stream would give them, so that a test says which
come together, and where a driver dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned
from pyspark.sql import SparkSession

from sexton.machines.retry_records import LockRecord
from sexton.machines.retry_settings import Backoff, Settings
from sexton.spark import Message
from sexton.spark.retry import pipeline_of
from sexton.spark.retry_attempt import Pipeline
from sexton.spark.retry_batch import LISTEN_MS, RetryBatches
from sexton.spark.retry_tick import Alarm, now_ms
from sexton.spark.sink_protocol import Probe, unwatched
from sexton.testing.cluster import Cluster
from sexton.testing.waiting import until
from tests.spark.sink_faults import committed

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


def pipeline(cluster: Cluster, topic: str, handler: Callable[[Message], Any] = handle) -> Pipeline:
    for name in (topic, f"{topic}-out"):
        cluster.create_topic(name, 2)
    return pipeline_of(
        handler, topic=topic, output_topic=f"{topic}-out", settings=SETTINGS,
        bootstrap_servers=cluster.bootstrap_servers,
    )  # fmt: skip


class Driver:
    """Batches by hand. A new one knows nothing but what Kafka has."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        probe: Probe = unwatched,
        is_active: Callable[[], bool] = lambda: True,
        attempts: int = 1,
    ) -> None:
        self._spark = spark
        self._alarm = Alarm()
        self._batches = RetryBatches(
            replace(pipeline, sink=replace(pipeline.sink, probe=probe, attempts=attempts)),
            self._alarm,
        )
        self._batches.belongs_to("query", is_active)

    def run(self, number: int, rows: Iterable[int]) -> None:
        noon = datetime(2024, 6, 1, 12, tzinfo=UTC)
        told = [(f"key-{n % KEYS}".encode(), str(n).encode(), n % 2, n // 2, noon) for n in rows]
        self._batches(self._spark.createDataFrame(told, COLUMNS), number)

    def settle(self, number: int) -> int:
        """Batches without rows, when they are due, until nothing waits; the number of the next."""
        while self.due_ms <= now_ms() + LISTEN_MS:  # else nothing waits
            until(self.is_due, "the time of a retry")
            self.run(number, ())
            number += 1
        return number

    @property
    def due_ms(self) -> int:
        return int(self._alarm.path.read_text())

    def is_due(self) -> bool:
        return now_ms() >= self.due_ms


def outputs(cluster: Cluster, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    return committed(cluster, f"{topic}-out", 2)


def locks(cluster: Cluster, ours: Pipeline) -> dict[bytes | None, LockRecord]:
    held: dict[bytes | None, LockRecord] = {}
    for _partition, key, value in committed(cluster, ours.topics.locks, 2):
        held.pop(key, None)
        if value is not None:
            held[key] = LockRecord.decode(value)
    return held


class Outputs:
    """What a read_committed consumer has seen of a topic so far."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "outputs",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([Assigned(topic, number, 0) for number in range(2)])
        self.seen: list[tuple[int, bytes | None, bytes | None]] = []

    def await_count(self, count: int, trouble: Callable[[], str], for_s: float = 300.0) -> None:
        """`trouble`: why there will be no more, if there will not."""

        def are_there() -> bool:
            message = self._consumer.poll(1)
            if message is not None and message.error() is None:
                self.seen.append((message.partition() or 0, message.key(), message.value()))
            elif why := trouble():
                raise AssertionError(why)
            return len(self.seen) >= count

        until(are_there, f"{count} outputs", for_s, lambda: f"there are {len(self.seen)}")
