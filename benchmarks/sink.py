"""Our exactly-once sink beside Spark's own at-least-once one: rows a second, and latency.

The same streams of Parquet files, by the same warm Spark session, to one real Apache Kafka, in
turns: uncompressed and lz4, to one partition and to twelve, in large micro-batches and in small
ones. The broker shares the machine with Spark. See `sink_streams` for what is counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import audit_connector as connector
from benchmarks.contestants import Contestant, apache_kafka
from benchmarks.measure import By, race
from benchmarks.registry import Setting
from benchmarks.result import Goal, Result, TimesAsFast, Unit
from benchmarks.segments import GIB
from benchmarks.sink_latency import latency
from benchmarks.sink_rows import write_files
from benchmarks.sink_streams import DEFAULT, OURS, TUNED, Stream, starts
from sexton.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE_ROWS, LARGE_FILES = 500_000, 5  # rows for `--size 1GiB`; a file is a micro-batch
SMALL_ROWS, SMALL_FILES = 1_000, 12
LATENCY_FILES = 10
PARTITIONS = (12, 1)
CODECS = ("none", "lz4")
MOST_ROUNDS, SMALL_ROUNDS = 5, 3
MOST_SECONDS = 30.0  # of a contestant's rounds in one case
GOALS: dict[str, Goal] = {DEFAULT: TimesAsFast(1.5), TUNED: TimesAsFast(1.0)}
SPARK = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.idleTimeoutSeconds": "600",
    # Its own file source should not be what is measured.
    "spark.sql.streaming.fileSource.log.compactInterval": "100",
}


def run(setting: Setting) -> Iterator[Result]:
    large = max(SMALL_ROWS, setting.size * LARGE_ROWS // GIB // 1000 * 1000)
    jars = ",".join(map(str, connector.jars()))
    with (
        tempfile.TemporaryDirectory(prefix="sexton-bench-") as home,
        apache_kafka(1, keep=setting.keep) as broker,
        spark_session(settings={**SPARK, "spark.jars": jars}, optimize=True) as spark,
    ):
        write_files(Path(home, "large"), LARGE_FILES, large)
        write_files(Path(home, "small"), SMALL_FILES, SMALL_ROWS)
        _warm(spark, broker, Path(home))
        rounds = min(setting.repeat, MOST_ROUNDS)
        for partitions in PARTITIONS:
            for codec in CODECS:
                what = f"{codec}, micro-batches of {large:,} rows"
                files = Path(home, "large")
                yield from _raced(spark, broker, files, partitions, codec, what, rounds)
        for partitions in PARTITIONS:
            for codec in CODECS:
                what = f"{codec}, micro-batches of {SMALL_ROWS:,} rows"
                files, few = Path(home, "small"), min(rounds, SMALL_ROUNDS)
                yield from _raced(spark, broker, files, partitions, codec, what, few)
                yield from _latencies(spark, broker, partitions, codec, few)


def _warm(spark: SparkSession, broker: Contestant, home: Path) -> None:
    """Java compiles what it has run a lot: everybody's ways, with and without compression."""
    for files, codecs in (("small", CODECS[:1]), ("large", CODECS)):
        for codec in codecs:
            for start in starts(codec).values():
                Stream(spark, broker, start, home / files, PARTITIONS[0]).turn()


def _raced(
    spark: SparkSession, broker: Contestant, files: Path, partitions: int, codec: str, what: str,
    rounds: int,
) -> Iterator[Result]:  # fmt: skip
    streams = {
        name: Stream(spark, broker, start, files, partitions)
        for name, start in starts(codec).items()
    }
    turns = {name: stream.turn for name, stream in streams.items()}
    race(turns, By.WALL, rounds, MOST_SECONDS)
    case = f"{_partitions(partitions)}, {what}"
    for by in (By.WALL, By.CPU):
        for peer in (DEFAULT, TUNED):
            ours, theirs = streams[OURS].best(by), streams[peer].best(by)
            goal = GOALS[peer] if by is By.WALL else None
            yield Result("sink", case, by, ours, peer, theirs, goal)


def _latencies(
    spark: SparkSession, broker: Contestant, partitions: int, codec: str, rounds: int
) -> Iterator[Result]:
    turns = {
        name: partial(latency, spark, broker, start, partitions, SMALL_ROWS, LATENCY_FILES)
        for name, start in starts(codec).items()
    }
    found = race(turns, By.WALL, rounds)
    case = f"{_partitions(partitions)}, {codec}, {SMALL_ROWS:,} rows, end to end, p50"
    for peer in (DEFAULT, TUNED):
        yield Result("sink", case, By.WALL, found[OURS], peer, found[peer], unit=Unit.DURATION)


def _partitions(number: int) -> str:
    return "1 partition" if number == 1 else f"{number} partitions"
