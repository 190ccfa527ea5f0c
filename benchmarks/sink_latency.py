"""From a row's appearance to a consumer that may see it: how long does it take?

A query waits for files. A file is put there, and the clock runs until a consumer has all its rows.
The consumer reads committed records only, as anybody would who cares for exactly-once; what the
other sinks write is committed as soon as it is there.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned

from benchmarks.contestants import Contestant
from benchmarks.measure import Measure
from benchmarks.sink_rows import SCHEMA, write_file
from benchmarks.sink_streams import Start, new_topic
from sexton.base.errors import PeerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_FILES = 4
MOST_WAIT_S = 60.0


def latency(
    spark: SparkSession, broker: Contestant, start: Start, partitions: int, rows: int, files: int
) -> Measure:
    """Of the middle one of so many files of so many rows."""
    with (
        new_topic(broker, partitions) as topic,
        tempfile.TemporaryDirectory(prefix="sexton-bench-", ignore_cleanup_errors=True) as home,
        closing(_consumer(broker.bootstrap, topic, partitions)) as consumer,
    ):
        arriving = Path(home, "arriving")
        arriving.mkdir()
        stream = spark.readStream.schema(SCHEMA).parquet(str(arriving))
        query = start(stream, broker.bootstrap, topic, str(Path(home, "checkpoint")), {})
        try:
            taken = [_one(consumer, arriving, number, rows) for number in range(WARM_FILES + files)]
        finally:
            query.stop()
    return Measure(1, 0.0, statistics.median(taken[WARM_FILES:]))


def _consumer(bootstrap: str, topic: str, partitions: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "latency",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([Assigned(topic, number, 0) for number in range(partitions)])
    return consumer


def _one(consumer: Consumer, arriving: Path, number: int, rows: int) -> float:
    write_file(Path(arriving.parent, f"{number:05}.parquet"), rows, number)
    began = perf_counter()
    Path(arriving.parent, f"{number:05}.parquet").rename(arriving / f"{number:05}.parquet")
    left = rows
    while left:
        messages = consumer.consume(left, 0.05)
        left -= sum(1 for message in messages if not message.error())
        if perf_counter() - began > MOST_WAIT_S:
            raise PeerError("the sink", f"has not written {left} of {rows} rows in time")
    return perf_counter() - began
