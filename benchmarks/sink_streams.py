"""A stream from files to a topic, by our sink and by Spark's own: what does each make of it?

Ours writes every row exactly once, in a transaction for each micro-batch. Spark's own writes at
least once, with an ordinary producer: with its defaults, and *tuned*, as people do who measure
(batches of 512 KB that may wait 20 ms to fill, and memory for them).

Rows a second are those of a query that runs: its first micro-batch, with all that happens once, is
not counted. CPU is of everybody, for the whole query: driver, Java, its Pythons, and the broker.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.audit_connector import VERSION
from benchmarks.audit_processes import SparkProcesses
from benchmarks.contestants import Contestant
from benchmarks.measure import By, Measure
from benchmarks.sink_rows import SCHEMA
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.listing import LATEST, list_offsets
from sexton.client.replica import Isolation
from sexton.spark import exactly_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OURS = "ours, exactly once"
DEFAULT = f"Spark's Kafka sink {VERSION}"
TUNED = f"{DEFAULT}, tuned"
TUNING = {
    "kafka.batch.size": str(512 << 10),
    "kafka.linger.ms": "20",
    "kafka.buffer.memory": str(128 << 20),
}
Trigger = Mapping[str, Any]
# Starts a query: a stream, a topic on a broker, a checkpoint, a trigger.
Start = Callable[["DataFrame", str, str, str, Trigger], "StreamingQuery"]


def _ours(
    codec: str, stream: DataFrame, bootstrap: str, topic: str, place: str, trigger: Trigger
) -> StreamingQuery:
    return exactly_once(
        stream, topic=topic, bootstrap_servers=bootstrap, checkpoint=place, trigger=trigger,
        options={"compression.type": codec},
    )  # fmt: skip


def _theirs(
    codec: str, options: Mapping[str, str], stream: DataFrame, bootstrap: str, topic: str,
    place: str, trigger: Trigger,
) -> StreamingQuery:  # fmt: skip
    writer = stream.writeStream.format("kafka").option("checkpointLocation", place)
    told = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "kafka.compression.type": codec}
    for name, value in {**told, **options}.items():
        writer = writer.option(name, value)
    return (writer.trigger(**trigger) if trigger else writer).start()


def starts(codec: str) -> dict[str, Start]:
    """By contestant."""
    return {
        OURS: partial(_ours, codec),
        DEFAULT: partial(_theirs, codec, {}),
        TUNED: partial(_theirs, codec, TUNING),
    }


@contextmanager
def new_topic(broker: Contestant, partitions: int) -> Iterator[str]:
    topic = f"sink-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions)
    try:
        yield topic
    finally:
        broker.admin.delete_topic(topic)


@dataclass(frozen=True, slots=True)
class Stream:
    """All files of a directory, a micro-batch each, by one contestant; again and again."""

    spark: SparkSession
    broker: Contestant
    start: Start
    files: Path
    partitions: int
    walls: list[Measure] = field(default_factory=list)
    cpus: list[Measure] = field(default_factory=list)

    def turn(self) -> Measure:
        processes = SparkProcesses.of(self.spark)
        with new_topic(self.broker, self.partitions) as topic:
            before = processes.cpu_s() + self.broker.cpu_s
            progress = self._run(topic)
            cpu_s = processes.cpu_s() + self.broker.cpu_s - before
            rows = sum(each["numInputRows"] for each in progress)
            ends = asyncio.run(self._ends(topic))
            # A transaction leaves a marker in each partition it wrote to.
            assert rows <= ends <= rows + len(progress) * self.partitions, "every row is there"
        later = progress[1:]
        wall_s = sum(each["durationMs"]["triggerExecution"] for each in later) / 1000
        self.walls.append(Measure(sum(each["numInputRows"] for each in later), 0.0, wall_s))
        self.cpus.append(Measure(rows, cpu_s, wall_s))
        return self.walls[-1]

    def _run(self, topic: str) -> list[dict[str, Any]]:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        with tempfile.TemporaryDirectory(prefix="sexton-bench-") as place:
            query = self.start(
                reader.parquet(str(self.files)), self.broker.bootstrap, topic, place,
                {"availableNow": True},
            )  # fmt: skip
            query.awaitTermination()
            told = [dict(each) for each in query.recentProgress]
        return [each for each in told if each["numInputRows"]]

    async def _ends(self, topic: str) -> int:
        parts = [TopicPartition(topic, number) for number in range(self.partitions)]
        async with Client(self.broker.bootstrap) as client:
            found = await list_offsets(
                client, dict.fromkeys(parts, LATEST), Isolation.READ_COMMITTED
            )
        return sum(found.values())

    def best(self, by: By) -> Measure:
        rounds = self.cpus if by is By.CPU else self.walls
        return max(rounds, key=lambda measure: measure.rate(by))
