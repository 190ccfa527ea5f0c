"""The audit of three replicas beside others who want to know the last value of each key.

    ours, on Spark         reads every replica, checks it, folds it, compares     3 × 8 M records
    ours, in one process   the same without Spark                                 3 × 8 M
    Spark's connector      reads the topic once, groupBy(key).agg(max_by)             8 M
    kafka-dump-log | …     prints one partition on one broker to a script             2 M

All on the same topic of a real Apache Kafka with three brokers, which share the machine with
whoever reads. Compared per record read. CPU time is of the driver, its Java and its Pythons, not of
the brokers, who have a row of their own. Ours and the connector share one Spark session, warm, with
both of Java's compilers: the connector needs them. What the start of Spark costs is told apart.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from benchmarks import audit_connector as connector
from benchmarks.audit_growth import growth
from benchmarks.audit_processes import SparkProcesses
from benchmarks.audit_start import start_up
from benchmarks.audit_topic import BROKERS, Topic, filled_topic, three_brokers
from benchmarks.java_programs import tool
from benchmarks.measure import By, Measure, race, timed_process
from benchmarks.registry import Setting
from benchmarks.result import Result, TimesAsFast, Unit
from benchmarks.segments import GIB
from sexton.spark.runner import SparkRunner
from sexton.spark.session import spark_session
from sexton.survey.plan import Wanted
from sexton.survey.runner import LocalRunner, Runner
from sexton.survey.survey import run_survey
from sexton.testing.apache_kafka import dump_log_class
from sexton.testing.kafka_jars import KAFKA_4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 8_000_000  # for `--size 1GiB`, about what they take
SMALLER = 8  # how many times smaller the topic is on which all are warmed up
MOST_ROUNDS = 3
MOST_SECONDS = 40.0  # so that the connector, which takes thirty, has a second round
LESS_CPU, MORE_RECORDS = TimesAsFast(15), TimesAsFast(10)
ON_SPARK, IN_PROCESS = "on Spark, warm", "in one process, warm"
DUMP = "kafka-dump-log, piped to a script"
_SCRIPT = Path(__file__).with_name("audit_last_per_key.py")
_SPARK = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "4",
    "spark.python.worker.idleTimeoutSeconds": "600",  # the connector has a long turn
}


def run(setting: Setting) -> Iterator[Result]:
    records = setting.size * RECORDS // GIB // 1000 * 1000
    with three_brokers(keep=setting.keep) as kafka:
        small = filled_topic(kafka, "small", records // SMALLER)
        topic = filled_topic(kafka, "audited", records)
        yield from start_up(topic.brokers.bootstrap, topic.name, _what(topic))
        jars = ",".join(map(str, connector.jars()))
        with spark_session(settings={**_SPARK, "spark.jars": jars}, optimize=True) as spark:
            yield from _raced(setting, spark, small, topic)
    yield from growth(records)


# ── the race ──


@dataclass(frozen=True, slots=True)
class Turns:
    """One contestant: every round it has had, and what the brokers spent on each."""

    topic: Topic
    work: Callable[[Topic], tuple[int, int]]  # does it; returns records and bytes that were read
    cpu_s: Callable[[], float]
    rounds: list[Measure] = field(default_factory=list)
    of_brokers: list[Measure] = field(default_factory=list)

    def turn(self) -> Measure:
        brokers, cpu, wall = self.topic.brokers.cpu_s, self.cpu_s(), perf_counter()
        records, size = self.work(self.topic)
        wall_s = perf_counter() - wall
        self.rounds.append(Measure(records, self.cpu_s() - cpu, wall_s, size))
        brokers_s = self.topic.brokers.cpu_s - brokers
        self.of_brokers.append(Measure(records, brokers_s, wall_s, size))
        return self.rounds[-1]

    def best(self, by: By) -> Measure:
        return max(self.rounds, key=lambda measure: measure.rate(by))


def _raced(setting: Setting, spark: SparkSession, small: Topic, topic: Topic) -> Iterator[Result]:
    processes = SparkProcesses.of(spark)
    on_spark = partial(_audit, SparkRunner(spark))
    in_process = partial(_audit, LocalRunner())
    grouped = partial(_grouped, spark)
    for work in (on_spark, grouped, in_process, on_spark):
        work(small)
    few = Turns(small, on_spark, processes.cpu_s)
    turns = {
        ON_SPARK: Turns(topic, on_spark, processes.cpu_s),
        IN_PROCESS: Turns(topic, in_process, process_time),
        connector.NAME: Turns(topic, grouped, processes.cpu_s),
    }
    rounds = min(setting.repeat, MOST_ROUNDS)
    works = {name: each.turn for name, each in turns.items()}
    race({"few": few.turn, **works}, By.WALL, rounds, MOST_SECONDS)
    dumped = _dumped(topic)
    for ours in (ON_SPARK, IN_PROCESS):
        yield from _beside_connector(ours, turns[ours], turns[connector.NAME])
        for by in (By.CPU, By.WALL):
            case = f"{_what(topic)}, {ours}"
            yield Result("audit", case, by, turns[ours].best(by), DUMP, dumped)
    spent = min(turns[ON_SPARK].of_brokers, key=lambda measure: measure.cpu_s)
    case = f"{_what(topic)}, {ON_SPARK}, brokers' CPU"
    yield Result("audit", case, By.CPU, spent, unit=Unit.PER_GB)
    yield Result("audit", f"{_what(small)}, {ON_SPARK}", By.WALL, few.best(By.WALL))
    peak = Measure(topic.records, 0.0, 1.0, peak=processes.peak_of_a_worker())
    yield Result("audit", f"{_what(topic)}, a Python of Spark at its peak", By.MEMORY, peak)


def _beside_connector(name: str, ours: Turns, theirs: Turns) -> Iterator[Result]:
    beside = partial(Result, "audit", peer_name=connector.NAME)
    case = f"{_what(ours.topic)}, {name}"
    for by, goal in ((By.CPU, LESS_CPU), (By.WALL, MORE_RECORDS)):
        aim = goal if name == ON_SPARK else None
        yield beside(case=case, by=by, ours=ours.best(by), peer=theirs.best(by), goal=aim)


def _what(topic: Topic) -> str:
    return f"{BROKERS} × {topic.records / 1e6:g} M records, {topic.keys / 1e6:g} M keys"


# ── the contestants ──


def _audit(runner: Runner, topic: Topic) -> tuple[int, int]:
    """All replicas; they are alike, and nothing may be missing."""
    survey = run_survey(Wanted(topic.brokers.bootstrap, topics=(topic.name,)), runner)
    assert not list(survey.findings) and not list(survey.unread), "all replicas agree"
    facts = [each for partition in survey.partitions for each in partition.facts.values()]
    read = sum(each.records for each in facts)
    assert read == BROKERS * topic.records, "every record of every replica was read"
    assert sum(each.keys for each in facts) == BROKERS * topic.keys, "every key was met"
    return read, sum(each.bytes for each in facts)


def _grouped(spark: SparkSession, topic: Topic) -> tuple[int, int]:
    keys = connector.last_per_key(spark, topic.brokers.bootstrap, topic.name)
    assert keys == topic.keys, "every key was met"
    return topic.records, topic.size


def _dumped(topic: Topic) -> Measure:
    """One partition of one broker, whole processes: the tool's Java and the script."""
    records = topic.parts[0]
    log = min(topic.first_replica.glob("*.log"))
    dump = tool(dump_log_class(KAFKA_4), ["--print-data-log", "--files", str(log)])
    script = [sys.executable, "-I", "-S", str(_SCRIPT), str(records.keys)]
    pipeline = ["/bin/sh", "-c", f"{shlex.join(dump)} | {shlex.join(script)}"]
    return timed_process(pipeline, records.count, log.stat().st_size)
