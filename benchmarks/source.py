"""`spark.read.format("sexton")` beside Spark's own Kafka source: a topic to rows, in one batch.

Both read the same topic of one real Apache Kafka, all of it, in the same warm Spark session, and
work out a digest over keys and values, so that every byte has to be there. The broker shares the
machine with Spark. CPU is of the driver, its Java and its Pythons; the broker's is not in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks import audit_connector as connector
from benchmarks.audit_processes import SparkProcesses
from benchmarks.audit_topic import PARTITIONS, fill, parts_of
from benchmarks.contestants import Contestant, apache_kafka
from benchmarks.measure import By, Measure, race
from benchmarks.registry import Setting
from benchmarks.result import Result, TimesAsFast
from benchmarks.segments import GIB
from sexton.spark import register
from sexton.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 3_000_000  # for `--size 1GiB`
MOST_ROUNDS, WARM_ROUNDS = 4, 2
MOST_SECONDS = 40.0
TWICE = TimesAsFast(2)
OURS, OUR_TWO = "all columns", "key and value only"
THEIRS = f"Spark's Kafka source {connector.VERSION}"
CODECS = {"none": "producer", "lz4": "lz4"}  # and what the topic is told
SPARK = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.idleTimeoutSeconds": "600",
}


def run(setting: Setting) -> Iterator[Result]:
    records = max(PARTITIONS * 1000, setting.size * RECORDS // GIB // 1000 * 1000)
    jars = ",".join(map(str, connector.jars()))
    with (
        apache_kafka(1, keep=setting.keep) as broker,
        spark_session(settings={**SPARK, "spark.jars": jars}, optimize=True) as spark,
    ):
        register(spark)
        for codec, told in CODECS.items():
            # Kept for ever: the records are old already, and a broker looks for such in the end.
            settings = {"compression.type": told, "retention.ms": "-1"}
            broker.admin.create_topic(f"read-{codec}", PARTITIONS, settings)
            asyncio.run(fill(broker.bootstrap, f"read-{codec}", parts_of(records)))
        made = sum(part.count for part in parts_of(records))
        for codec in CODECS:
            yield from _raced(setting, spark, broker, codec, made)


def _raced(
    setting: Setting, spark: SparkSession, broker: Contestant, codec: str, records: int
) -> Iterator[Result]:
    read = partial(_count, spark, broker.bootstrap, f"read-{codec}")
    turns = {
        OURS: Reads(spark, partial(read, "sexton", {}), records),
        THEIRS: Reads(spark, partial(read, "kafka", {}), records),
        OUR_TWO: Reads(spark, partial(read, "sexton", {"columns": "key,value"}), records),
    }
    for _ in range(WARM_ROUNDS):
        digests = {each.work() for each in turns.values()}
        assert len(digests) == 1, "all have read the same"
    rounds = min(setting.repeat, MOST_ROUNDS)
    race({name: each.turn for name, each in turns.items()}, By.WALL, rounds, MOST_SECONDS)
    for name in (OURS, OUR_TWO):
        case = f"{records / 1e6:g} M records, {codec}, {name}"
        for by in (By.WALL, By.CPU):
            ours, theirs = turns[name].best(by), turns[THEIRS].best(by)
            goal = TWICE if by is By.WALL else None
            yield Result("source", case, by, ours, THEIRS, theirs, goal)


@dataclass(frozen=True, slots=True)
class Reads:
    """One contestant, and every round it has had."""

    spark: SparkSession
    work: Callable[[], tuple[int, int]]
    records: int
    rounds: list[Measure] = field(default_factory=list)

    def turn(self) -> Measure:
        processes = SparkProcesses.of(self.spark)
        cpu, wall = processes.cpu_s(), perf_counter()
        read, _digest = self.work()
        wall_s = perf_counter() - wall
        assert read == self.records, "every record was read"
        self.rounds.append(Measure(read, processes.cpu_s() - cpu, wall_s))
        return self.rounds[-1]

    def best(self, by: By) -> Measure:
        return max(self.rounds, key=lambda measure: measure.rate(by))


def _count(
    spark: SparkSession, bootstrap: str, topic: str, source: str, options: Mapping[str, str]
) -> tuple[int, int]:
    """How many records there are, and a digest over all keys and values."""
    told = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "kafka.max.partition.fetch.bytes": str(connector.FETCH_BYTES),
    }
    rows = spark.read.format(source).options(**{**told, **options}).load()
    (found,) = rows.selectExpr("count(*) n", "bit_xor(xxhash64(key, value)) digest").collect()
    return int(found["n"]), int(found["digest"])
