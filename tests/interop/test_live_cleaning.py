"""Pass after pass the same bytes as the LogCleaner of a running Apache Kafka.

Four topics, uncompressed and lz4, whose tombstones and markers may go after a day or at once. The
broker's cleaner is held back while records are written and the partition's directory is copied; it
is released for exactly one pass, and the directory is copied again. Our pass over the first copy
must give the second, indexes included. What it needs to know of Kafka's clock is in the delete
horizons that Kafka has set.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from sexton.log.cleaner import CleanerOptions, clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.names import CLEANER_OFFSETS
from sexton.log.partition import PartitionLog
from sexton.log.real_disk import RealDisk
from sexton.log.recovery import open_log
from sexton.records import decode
from sexton.records.layout import BatchHeader, headers_in
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_jars import KAFKA_4
from sexton.testing.waiting import until
from tools.fixture_cases import BASE_CONFIGS, FOREVER_MS, HOUR_MS, Writer
from tools.scripted_producer import Producer, ScriptedProducers

pytestmark = pytest.mark.kafka

DAY_MS = 24 * HOUR_MS
FILES = (".log", ".index", ".timeindex", ".txnindex")
KEPT = (*FILES, ".snapshot")
HOLD = "log.cleaner.min.compaction.lag.ms"
OPTIONS: dict[str, object] = {
    HOLD: FOREVER_MS,
    "log.cleaner.backoff.ms": 50,
    "log.initial.task.delay.ms": 0,
    "log.message.timestamp.after.max.ms": FOREVER_MS,
    "transaction.max.timeout.ms": 900_000,
}
PASSES = 4


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    """A cluster of its own: its cleaner is held back and released."""
    with ApacheKafka(KafkaConfig(KAFKA_4, options=OPTIONS)) as cluster:
        yield cluster


@dataclass(slots=True)
class Topic:
    name: str
    codec: str
    retention_ms: int
    writer: Writer
    producers: dict[str, Producer] = field(default_factory=dict)
    markers: int = 0  # that the coordinator was asked for
    seen: set[str] = field(default_factory=set)  # what a pass had to deal with

    @classmethod
    def create(
        cls, kafka: ApacheKafka, producers: ScriptedProducers, codec: str, retention_ms: int
    ) -> Topic:
        name = f"{codec}-{'soon' if retention_ms == 0 else 'day'}"
        configs = {
            **BASE_CONFIGS,
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": 0,
            "delete.retention.ms": retention_ms,
        }
        kafka.admin.create_topic(name, 1, configs)
        return cls(name, codec, retention_ms, Writer(producers, name, int(time.time() * 1000)))

    def producer(self, name: str) -> Producer:
        if name not in self.producers:
            make = {"t": self.writer.transactional, "i": self.writer.idempotent}
            opened = make.get(name[0], self.writer.plain)(name, compression_type=self.codec)
            self.producers[name] = opened
        return self.producers[name]

    def batch(self, name: str, *items: str) -> None:
        """`key=value` and `-key`, in one batch."""
        records = [
            (item.removeprefix("-").split("=")[0].encode(), None)
            if item[0] == "-"
            else (item.split("=")[0].encode(), item.split("=")[1].encode() * 20)
            for item in items
        ]
        self.writer.batch(self.producer(name), *records)

    def transaction(self, name: str, ending: str, *items: str) -> None:
        self.producer(name).begin()
        self.batch(name, *items)
        self.end(name, ending)

    def end(self, name: str, ending: str) -> None:
        getattr(self.producer(name), ending)()
        self.markers += 1

    def write(self, number: int) -> None:
        """What there is to clean in one pass."""
        if number == 0:
            self.batch("plain", "a=1", "b=1", "c=1", "d=1")
            self.batch("plain", *(f"k{n}={n}" for n in range(30)))
            self.transaction("t1", "commit", "a=2", "b=2")
            self.transaction("t2", "abort", "a=3", "x=1")
            self.batch("i1", "e=1", "f=1")
            self.batch("i2", "g=1")
            self.producer("t1").begin()
            self.batch("t1", "h=1")
            self.transaction("t2", "commit", "i=1")
            self.end("t1", "abort")
            self.writer.roll()
            self.batch("plain", "-b", "e=2", "f=2", *(f"k{n}=new" for n in range(0, 30, 3)))
            self.transaction("t1", "commit", "g=2", "-d")
        elif number == 1:
            self.batch("plain", "a=4", "-k3", "-k4")
            self.transaction("t2", "commit", "i=2", "h=2")
            self.writer.roll()
            self.batch("i1", "e=3")
            self.transaction("t1", "abort", "e=4", "-a")
        elif number == 2:
            self.batch("i2", "j=1")
            self.batch("plain", "e=5", "i=3", "h=3", "g=3")

    def finish(self, number: int) -> None:
        """A record in a segment of its own: the cleaner never touches the active one."""
        self.writer.roll()
        self.batch("plain", f"end={number}")


def test_each_pass_leaves_the_bytes_that_kafka_leaves(kafka: ApacheKafka, tmp_path: Path) -> None:
    with ScriptedProducers(kafka) as producers:
        topics = [
            Topic.create(kafka, producers, codec, retention_ms)
            for codec in ("none", "lz4")
            for retention_ms in (0, DAY_MS)
        ]
        for number in range(PASSES):
            before, after = tmp_path / f"{number}-before", tmp_path / f"{number}-after"
            for topic in topics:
                topic.write(number)
            for topic in topics:
                until(partial(ended, kafka, topic), f"the markers of {topic.name}")
                topic.finish(number)
                copy(kafka, topic, before)
            release(kafka, topics)
            for topic in topics:
                copy(kafka, topic, after)
                compare(topic, before, after)
    for topic in topics:
        expected = {"aborted data", "tombstone", "horizon", "empty batch", "marker with horizon"}
        assert expected <= topic.seen
        if topic.retention_ms == 0:
            assert {"tombstone gone", "marker gone"} <= topic.seen


def live(kafka: ApacheKafka, topic: Topic) -> Path:
    return kafka.data_directory() / f"{topic.name}-0"


def active(directory: Path) -> int:
    return max(int(path.stem) for path in directory.glob("*.log"))


def ended(kafka: ApacheKafka, topic: Topic) -> bool:
    """Are the markers there? A coordinator writes them after it has answered."""
    present = [h for h in headers(live(kafka, topic)) if h.is_control]
    fresh = [h for h in present if h.base_offset >= clean_end(kafka, topic)]
    return len(fresh) == topic.markers


def cleaned(kafka: ApacheKafka, topic: Topic, end: int) -> bool:
    return clean_end(kafka, topic) == end


def clean_end(kafka: ApacheKafka, topic: Topic) -> int:
    """The cleaner's checkpoint."""
    file = kafka.data_directory() / CLEANER_OFFSETS
    lines = file.read_text().splitlines() if file.exists() else []
    return next((int(x.split()[2]) for x in lines if x.startswith(f"{topic.name} 0 ")), 0)


def headers(directory: Path) -> list[BatchHeader]:
    return [
        header
        for path in sorted(directory.glob("*.log"))
        for _, header in headers_in(path.read_bytes(), path.name)
    ]


def copy(kafka: ApacheKafka, topic: Topic, target: Path) -> None:
    source = live(kafka, topic)
    (target / source.name).mkdir(parents=True)
    for path in source.iterdir():
        if path.suffix in KEPT:
            shutil.copy(path, target / source.name)


def release(kafka: ApacheKafka, topics: list[Topic]) -> None:
    """One pass over each topic, up to its active segment."""
    kafka.admin.alter_broker(1, {HOLD: 0})
    for topic in topics:
        end = active(live(kafka, topic))
        what = f"{topic.name} cleaned up to {end}"
        until(partial(cleaned, kafka, topic, end), what, 60, kafka.nodes[1].log_tail)
        topic.markers = 0
    kafka.admin.alter_broker(1, {HOLD: FOREVER_MS})


def compare(topic: Topic, before: Path, after: Path) -> None:
    name = f"{topic.name}-0"
    look(topic, before / name, after / name)
    now_ms = pass_time(topic, before / name, after / name)
    ours = opened(before, name)
    end = min(ours.last_stable_offset, ours.active.base_offset)
    clean(ours, Bounds.independent(now_ms, end), CleanerOptions(topic.retention_ms))
    sealed = {
        path.name: path.read_bytes()
        for path in sorted((after / name).iterdir())
        if path.suffix in FILES and int(path.stem) < active(after / name)
    }
    made = {
        path.name: path.read_bytes()
        for path in sorted((before / name).iterdir())
        if path.suffix in FILES and int(path.stem) < ours.active.base_offset
    }
    assert made.keys() == sealed.keys()
    for file, expected in sealed.items():
        assert made[file] == expected, f"{after.name} {topic.name} {file}"


def opened(root: Path, name: str) -> PartitionLog:
    config = LogConfig(index_interval_bytes=1)
    return open_log(RealDisk(root), name, config, now_ms=0, clean=True, high_watermark=1 << 62).log


def pass_time(topic: Topic, before: Path, after: Path) -> int:
    """By Kafka's clock: a horizon that is new is the time of the pass and the retention."""
    old, new = ({h.delete_horizon_ms for h in headers(place)} for place in (before, after))
    fresh = {horizon for horizon in new - old if horizon is not None}
    return min(fresh) - topic.retention_ms if fresh else int(time.time() * 1000)


def look(topic: Topic, before: Path, after: Path) -> None:
    """Notes what this pass was about, so that the test can tell whether it has tested anything."""
    old, new = headers(before), headers(after)
    old_tombstones, new_tombstones = tombstones(before), tombstones(after)
    markers = {h.base_offset for h in new if h.is_control and h.records_count}
    happened = {
        "aborted data": any(path.stat().st_size for path in before.glob("*.txnindex")),
        "tombstone": bool(old_tombstones),
        "horizon": any(h.delete_horizon_ms and not h.is_control for h in new),
        "empty batch": any(not h.records_count and not h.is_control for h in new),
        "marker with horizon": any(h.delete_horizon_ms and h.is_control for h in new),
        "tombstone gone": bool(old_tombstones - new_tombstones),
        "marker gone": any(h.is_control and h.base_offset not in markers for h in old),
    }
    topic.seen |= {what for what, did in happened.items() if did}


def tombstones(directory: Path) -> set[int]:
    """The offsets of records that delete a key."""
    data = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    columns = decode(data)
    chosen = (columns.value.length < 0) & ~columns.is_control
    return set(columns.offset[chosen].tolist())
