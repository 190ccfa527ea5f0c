"""What the tests of the sink share: rows with an order, a consumer, and trouble at a given step."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned
from pyspark.sql import DataFrame, SparkSession

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.retrying import Patience
from sexton.client.transaction_lists import describe_transaction
from sexton.records.columns import Spans
from sexton.records.encoder import encode, rows
from sexton.spark.sink_marker import Batch
from sexton.spark.sink_protocol import PREFIX, RULES, Plan, Probe, commit, send, unwatched
from sexton.testing.cluster import Cluster
from sexton.testing.waiting import until

Blobs = list[tuple[TopicPartition, bytearray]]
PARTITIONS = 2
# All in one run are of the same time; of 1970, retention would take them away beside the test.
WRITTEN_MS = time.time_ns() // 1_000_000
QUICKLY = {  # for Apache Kafka: what would take it ten seconds
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    "offsets.retention.check.interval.ms": 500,
    "log.retention.ms": -1,
}
EPOCH_S = 1_700_000_000  # when the first file was written, as far as Spark can see
ROWS, KEYS = 30, 7  # of a file
# Rows of this size are batches of their own, and fill several requests of the size that the sink
# chooses: some are taken then, some under way and some wait, when something happens.
WIDE = 80_000
SOME_ARE_SENT = 18  # batches of this size
EACH_A_BATCH = {"batch.size": str(WIDE - WIDE // 8)}
QUICK = Patience(timeout_ms=60_000, backoff_ms=10, most_backoff_ms=100)


class Injected(Exception):
    """A process that dies here, as far as Kafka can see."""


def fail_at(step: str, mark: Path, batch: int = 0) -> Callable[[str, int], None]:
    """A probe that fails once at a step of a batch, whichever process is there."""

    def probe(now: str, number: int) -> None:
        if (now, number) == (step, batch) and not mark.exists():
            mark.touch()
            raise Injected(f"{step} of batch {number}")

    return probe


@contextmanager
def leader_killed_on_the_way(cluster: Cluster, topic: str, place: Path) -> Iterator[Probe]:
    """A probe: when its sender has some requests under way, a leader is killed, and not before."""
    asked, done = place / f"{topic}-asked", place / f"{topic}-done"
    sent: list[str] = []  # travels to each task, empty

    def probe(step: str, _batch: int) -> None:
        if step == "sending":
            sent.append(step)
            if len(sent) == SOME_ARE_SENT and not asked.exists():
                asked.touch()
                until(done.exists, "a dead broker", 120)

    def watch() -> None:
        until(asked.exists, "a task that sends", 300)
        cluster.kill(cluster.leader_of(topic, 0))
        done.touch()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield probe
        assert done.exists()
    finally:
        asked.touch()
        thread.join(120)


# ── a stream ──


def rows_to(directory: Path, files: range, width: int = 0) -> None:
    """Files of rows that are numbered from one to the next, each key's in order.

    Spark takes files by their time, and two that are written in one millisecond in any order.
    """
    directory.mkdir(exist_ok=True)
    for number in files:
        values = range(number * ROWS, (number + 1) * ROWS)
        keys = [f"key-{value % KEYS}".encode() for value in values]
        table = pa.table({"key": keys, "value": [str(value).rjust(width) for value in values]})
        hidden, path = directory / f".{number:05}", directory / f"{number:05}.parquet"
        pq.write_table(table, hidden)
        os.utime(hidden, (EPOCH_S + number, EPOCH_S + number))
        hidden.rename(path)


def stream_of(spark: SparkSession, directory: Path) -> DataFrame:
    reader = spark.readStream.schema("key binary, value string")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(directory))


def wide_rows(spark: SparkSession, count: int) -> DataFrame:
    """A DataFrame whose rows are as those of a stream, and of which each is a batch."""
    columns = f"string(id % {KEYS}) AS key", f"lpad(string(id), {WIDE}, ' ') AS value"
    return spark.range(0, count, 1, 2).selectExpr(*columns)


# ── the protocol without Spark ──


def plan_of(cluster: Cluster, topic: str, number: int, **more: Any) -> Plan:
    probe, version = more.pop("probe", unwatched), more.pop("version", None)
    rules = more.pop("rules", RULES)
    batch = Batch(topic, number, **{"query": "q", "run": "r", **more})
    kafka = {"bootstrap.servers": cluster.bootstrap_servers}
    return Plan(kafka, batch, TopicPartition(topic, 0), 60_000, QUICK, probe, version, rules=rules)


def blobs(topic: str, numbers: range, width: int = 0) -> Blobs:
    """Two records a batch, the batches of each partition in order."""
    found: Blobs = []
    for first in range(numbers.start, numbers.stop, 2):
        pair = [str(n).rjust(width).encode() for n in (first, first + 1)]
        at = TopicPartition(topic, first // 2 % PARTITIONS)
        key = Spans.from_list([str(at.partition).encode()] * 2)
        data = encode(
            rows(np.full(2, WRITTEN_MS), key, Spans.from_list(list(pair)), batch_bytes=1 << 20)
        )
        found.append((at, bytearray(data)))
    return found


def write(plan: Plan, batches: Iterable[tuple[TopicPartition, bytearray]]) -> bool:
    return commit(plan, [send(plan, batches)])


def until_over(cluster: Cluster, pipeline: str) -> None:
    """Waits until the pipeline has no open transaction."""
    until_ended(cluster.bootstrap_servers, pipeline)


def until_ended(servers: str, pipeline: str) -> None:
    """The same in a task, which has no cluster."""

    async def is_over() -> bool:
        async with Client(servers) as client:
            return not (await describe_transaction(client, PREFIX + pipeline)).is_open

    until(lambda: asyncio.run(is_over()), "the end of the transaction")


# ── what a reader sees ──


def committed(
    cluster: Cluster, topic: str, partitions: int, *, settled: bool = True
) -> list[tuple[int, bytes | None, bytes | None]]:
    """(partition, key, value) of all that a read_committed consumer sees, in order.

    A commit is answered before its markers are written. Unless `settled` is False, they are awaited
    here: until no transaction is open in the topic.
    """
    places = [Assigned(topic, number, 0) for number in range(partitions)]
    if settled:
        ends = [_ends(cluster, each, places) for each in ("read_committed", "read_uncommitted")]
        until(lambda: ends[0]() == ends[1](), f"the end of all transactions in {topic}", 120)
    consumer = _consumer(cluster, "read_committed")
    found: list[tuple[int, bytes | None, bytes | None]] = []
    try:
        consumer.assign(places)
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(60)
            assert message is not None, "nothing is heard of the topic"
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                ended.add(partition)
            else:
                found.append((partition, message.key(), message.value()))
    finally:
        consumer.close()
    return found


def _ends(cluster: Cluster, isolation: str, places: list[Assigned]) -> Callable[[], list[int]]:
    """Asks how far a consumer would get in each partition."""

    def ask() -> list[int]:
        consumer = _consumer(cluster, isolation)
        try:
            answers = [consumer.get_watermark_offsets(each, timeout=60) for each in places]
            return [end for _start, end in answers]
        finally:
            consumer.close()

    return ask


def _consumer(cluster: Cluster, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )


def trouble(seen: Iterable[tuple[int, bytes | None, bytes | None]], expected: int) -> list[str]:
    """What is wrong with values that should be 0 up to `expected`, each once, in order by key."""
    numbers: list[int] = []
    last: dict[bytes | None, int] = {}
    wrong = []
    for _partition, key, value in seen:
        number = int(value or b"")
        if last.get(key, -1) >= number:
            wrong.append(f"{number} after {last[key]}")
        last[key] = max(number, last.get(key, -1))
        numbers.append(number)
    lost = sorted(set(range(expected)) - set(numbers))
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if lost:
        wrong.append(f"lost: {lost[:5]}")
    if twice:
        wrong.append(f"twice: {twice[:5]}")
    return wrong
