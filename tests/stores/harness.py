"""Inputs for the counter, its instances as processes, and what must be in the sink afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.committed import committed_batches
from sexton.client.reading import PartitionReader
from sexton.client.replica import Isolation
from sexton.client.retrying import PATIENT, Patience
from sexton.client.transacting import Committed, group_offsets
from sexton.stores import App
from sexton.stores.changelog import bounds
from sexton.stores.described import describe
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores import counting
from tests.stores.counting import INPUT, SINK

ROOT = Path(__file__).parents[2]
CHANGELOG = "counter-counts-changelog"
Inputs = Iterable[tuple[int, str] | tuple[int, str, bytes]]  # partition, key, value


def make_topics(kafka: Cluster, partitions: int) -> None:
    kafka.create_topic(INPUT, partitions)
    kafka.create_topic(SINK, partitions)


def producer_of(bootstrap_servers: str) -> Producer:
    return Producer(
        {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    )


def write(bootstrap_servers: str, inputs: Inputs, producer: Producer | None = None) -> int:
    producer = producer or producer_of(bootstrap_servers)
    written = 0
    for partition, key, *value in inputs:
        said = value[0] if value else b"1"
        producer.produce(INPUT, said, key=key, partition=partition)
        producer.poll(0)
        written += 1
    assert producer.flush(60) == 0
    return written


def committed(bootstrap_servers: str, topic: str, partition: int) -> list[tuple[str, bytes | None]]:
    """What a read_committed consumer is shown, once nothing is open any more."""

    async def read() -> list[tuple[str, bytes | None]]:
        at = TopicPartition(topic, partition)
        found: list[tuple[str, bytes | None]] = []
        async with Client(bootstrap_servers) as client:
            end = (await bounds(client, at)).high_watermark
            reader = PartitionReader(client, at)
            async for chunk in reader.read(0, end, isolation=Isolation.READ_COMMITTED):
                for batch in committed_batches(chunk):
                    found += [((r.key or b"").decode(), r.value) for r in batch.records()]
        return found

    return asyncio.run(read())


def delete_before(bootstrap_servers: str, at: TopicPartition, offset: int) -> None:
    """As retention does, sooner."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    [deleted] = admin.delete_records([Partition(at.topic, at.partition, offset)]).values()
    deleted.result(60)


def sums(bootstrap_servers: str, partition: int) -> list[tuple[str, int]]:
    """The sink, record by record."""
    return [
        (key, int.from_bytes(value or b"", signed=True))
        for key, value in committed(bootstrap_servers, SINK, partition)
    ]


def regressions(found: Iterable[tuple[str, int]]) -> list[str]:
    """As the seed's validator says it: a sum that is not one more than the last of its key."""
    last: dict[str, int] = defaultdict(int)
    wrong = []
    for key, value in found:
        if value not in (last[key] + 1, 0):
            wrong.append(f"Key: {key}, LastValue: {last[key]}, NewValue: {value}")
        last[key] = value
    return wrong


def inputs_committed(bootstrap_servers: str, partitions: int) -> int:
    """How many inputs the group has committed, all partitions together."""
    return sum(offsets_committed(bootstrap_servers, partitions).values())


def offsets_committed(
    bootstrap_servers: str, partitions: int, patience: Patience = PATIENT
) -> dict[int, int]:
    """By partition; 0 where nothing is committed yet.

    Not by librdkafka's AdminClient: a coordinator that has moved away while it asks ends the
    process with a segmentation fault (librdkafka issue 5040, in 2.16 still).
    """

    async def ask() -> dict[TopicPartition, Committed]:
        async with Client(bootstrap_servers) as client:
            return await group_offsets(client, "counter", patience)

    there = asyncio.run(ask())
    places = ((number, there.get(TopicPartition(INPUT, number))) for number in range(partitions))
    return {number: place.offset if place else 0 for number, place in places}


def all_told(servers: str) -> bool:
    """Every copy is known to have all that there is now."""

    async def ask() -> bool:
        async with Client(servers) as client:
            tasks = (await describe(client, "counter")).tasks
        told = [(task.changelog_end, copy.warmth) for task in tasks for copy in task.copies]
        return len(told) == 2 and all(each and each.position == end for end, each in told)

    return asyncio.run(ask())


def state(app: App, partition: int) -> dict[str, int]:
    return dict(app.query("counts", partition).scan())


def restored(app: App) -> int:
    """Changelog records that promotions had to read."""
    name = "sexton_stores_restored_records_total"
    line = next(each for each in app.metrics().splitlines() if each.startswith(name))
    return int(line.split()[-1])


def wait_until_done(app: App, inputs: int, timeout_s: float = 60) -> None:
    """Until the partitions that are active on this instance have processed so many together."""

    def done() -> bool:
        running = [each for each in app.status() if each.state == "running"]
        return sum(each.input_position or 0 for each in running) == inputs

    until(done, f"{inputs} inputs are processed", timeout_s, lambda: str(app.status()))


@contextmanager
def placed(others: list[int], changelog: list[int]) -> Iterator[EmbeddedCluster]:
    """Three brokers, of which these have the input and the sink, and these the changelog."""
    one_each = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with EmbeddedCluster(options=one_each) as cluster:
        for topic in (INPUT, SINK):
            cluster.create_topic(topic, [others])
        cluster.create_topic(CHANGELOG, [changelog], {"cleanup.policy": "compact"})
        yield cluster


def count_to(servers: str, directory: Path, so_far: int, more: int, **options: object) -> None:
    """One instance, alone, counts that much more of one key."""
    write(servers, [(0, "key_17")] * more)
    with counting.app(servers, directory, **options) as one:
        wait_until_done(one, so_far + more)


def wait_until_active(app: App, partitions: int, timeout_s: float = 60) -> None:
    def active() -> bool:
        return sum(each.state == "running" for each in app.status()) == partitions

    until(active, f"{partitions} tasks are active", timeout_s, lambda: str(app.status()))


def wait_until_written(bootstrap_servers: str, partitions: int, records: int) -> None:
    """Until the sink has that many."""

    def there() -> bool:
        return sum(len(sums(bootstrap_servers, p)) for p in range(partitions)) >= records

    until(there, f"{records} records are in the sink", 120)


class Process:
    """One instance of its own, to be killed."""

    def __init__(self, bootstrap_servers: str, state_dir: Path, **options: Any) -> None:
        given = {"bootstrap_servers": bootstrap_servers, "state_dir": str(state_dir), **options}
        self._log = state_dir.with_suffix(".log").open("ab")
        self.log = state_dir.with_suffix(".log")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.stores.counting", json.dumps(given)],
            cwd=ROOT,
            stdout=self._log,
            stderr=self._log,
        )

    def send(self, what: signal.Signals) -> None:
        os.kill(self._process.pid, what)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def end(self, by: signal.Signals) -> int:
        self._process.send_signal(by)
        code = self._process.wait(60)
        self._log.close()
        return code

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def said(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")

    def times_said(self, words: str) -> int:
        return self.log.read_text(errors="replace").count(words)

    def wait_until_said(self, words: str, times: int = 1, timeout_s: float = 60) -> None:
        def there() -> bool:
            assert self.alive, self.log.read_text(errors="replace")
            return self.times_said(words) >= times

        until(there, f"{self.log.name} says {words!r}", timeout_s, self.log.read_text)


@contextmanager
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    try:
        yield started
    finally:
        for each in started:
            if each.alive:
                each.kill()
