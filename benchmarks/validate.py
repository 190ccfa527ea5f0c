"""Does a counter ever fall? Ours beside what one would write on Spark.

    ours, on Spark            a task for each partition, folded in memory      10 M records
    ours, in one process      the same without Spark
    a Spark SQL window        lag(count) over (partition by key), shuffled     10 M
    transformWithState        a state for each key, in RocksDB                 a slice: it is slow

All on the same topic of an Apache Kafka of one broker, which shares the machine, and all have to
find the same falls. Compared per record. CPU time is of the driver, its Java and its Pythons.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from benchmarks import audit_connector
from benchmarks.audit_processes import SparkProcesses
from benchmarks.measure import By, Measure, race
from benchmarks.registry import Setting
from benchmarks.result import Result, TimesAsFast
from benchmarks.segments import GIB
from benchmarks.validate_peers import ROCKSDB, WINDOW, WITH_STATE, falls_by_state, falls_by_window
from benchmarks.validate_topic import Topic, filled_topic
from sexton.audit.validation import Rules
from sexton.spark.session import spark_session
from sexton.spark.validate_runner import SparkTasks
from sexton.survey.validating import TaskRunner, validate
from sexton.survey.validating_plan import Asked
from sexton.survey.validating_runner import LocalTasks
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 10_000_000  # for `--size 1GiB`
SLICE = 100  # how many times smaller the topic is on which transformWithState has to do
MOST_ROUNDS = 3
MOST_SECONDS = 60.0
GOAL = TimesAsFast(5)
ON_SPARK, IN_PROCESS = "on Spark, warm", "in one process, warm"
_SPARK = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "4",
    "spark.python.worker.idleTimeoutSeconds": "600",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
}


def run(setting: Setting) -> Iterator[Result]:
    records = max(setting.size * RECORDS // GIB // 40_000, 1) * 40_000
    with ApacheKafka(KafkaConfig(nodes=1, heap="512m", keep=setting.keep)) as kafka:
        small = filled_topic(kafka, "small", max(records // SLICE, 20_000))
        topic = filled_topic(kafka, "counters", records)
        jars = ",".join(map(str, audit_connector.jars()))
        with (
            spark_session(settings={**_SPARK, "spark.jars": jars}, optimize=True) as spark,
            tempfile.TemporaryDirectory(prefix="sexton-bench-") as scratch,
        ):
            yield from _raced(setting, spark, small, topic, Path(scratch))


@dataclass(frozen=True, slots=True)
class Turns:
    """One contestant, and every round it has had."""

    topic: Topic
    work: Callable[[Topic], int]  # returns how many falls it found
    cpu_s: Callable[[], float]
    rounds: list[Measure] = field(default_factory=list)

    def turn(self) -> Measure:
        cpu, wall = self.cpu_s(), perf_counter()
        found = self.work(self.topic)
        wall_s = perf_counter() - wall
        assert found == self.topic.falls, f"{found} falls of {self.topic.falls} were found"
        self.rounds.append(Measure(self.topic.records, self.cpu_s() - cpu, wall_s))
        return self.rounds[-1]

    def best(self, by: By) -> Measure:
        return max(self.rounds, key=lambda measure: measure.rate(by))


def _raced(
    setting: Setting, spark: SparkSession, small: Topic, topic: Topic, scratch: Path
) -> Iterator[Result]:
    processes = SparkProcesses.of(spark)
    numbers = itertools.count()
    on_spark = partial(_ours, SparkTasks(lambda: spark))
    in_process = partial(_ours, LocalTasks())
    window = partial(_window, spark)
    with_state = partial(_with_state, spark, scratch, numbers)
    for work in (on_spark, window, in_process, on_spark):
        work(small)  # warm
    turns = {
        ON_SPARK: Turns(topic, on_spark, processes.cpu_s),
        IN_PROCESS: Turns(topic, in_process, process_time),
        WINDOW: Turns(topic, window, processes.cpu_s),
    }
    rounds = min(setting.repeat, MOST_ROUNDS)
    race({name: each.turn for name, each in turns.items()}, By.WALL, rounds, MOST_SECONDS)
    slow = Turns(small, with_state, processes.cpu_s)
    slow.turn()
    for ours in (ON_SPARK, IN_PROCESS):
        for peer, theirs in ((WINDOW, turns[WINDOW]), (WITH_STATE, slow)):
            for by in (By.WALL, By.CPU):
                yield Result(
                    "validate", f"{_what(topic)}, {ours}", by, turns[ours].best(by), peer,
                    theirs.best(by), GOAL if ours == ON_SPARK else None,
                )  # fmt: skip
    peak = Measure(topic.records, 0.0, 1.0, peak=processes.peak_of_a_worker())
    yield Result("validate", f"{_what(topic)}, a Python of Spark at its peak", By.MEMORY, peak)


def _what(topic: Topic) -> str:
    return f"{topic.records / 1e6:g} M records, {topic.keys / 1e6:g} M keys"


# ── the contestants ──


def _ours(runner: TaskRunner, topic: Topic) -> int:
    found = validate(Asked(topic.bootstrap, topic.name, Rules(value="json:count")), runner)
    assert not found.unread, "everything was read"
    assert sum(each.records for each in found.partitions) == topic.records
    assert sum(each.keys for each in found.partitions) == topic.keys
    return sum(found.counts.values())


def _window(spark: SparkSession, topic: Topic) -> int:
    return falls_by_window(spark, topic.bootstrap, topic.name)


def _with_state(spark: SparkSession, scratch: Path, numbers: Iterator[int], topic: Topic) -> int:
    return falls_by_state(spark, topic.bootstrap, topic.name, scratch / str(next(numbers)))
