"""Three instances as processes, killed and paused while they work: the whole promise at once.

In CI on the embedded cluster with 5,000 messages; `make soak` has 100,000 over 5,000 keys there and
on Apache Kafka, with pauses of a minute. What counts is the output topic, read as committed, and
that no lock and no message is left in the lock and retry topics when all is done.

A pause is longer than a session, and longer than the group waits for a poll: who wakes up is told
so by its own client, before or after it hears from the group.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from sexton.testing import EmbeddedCluster
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.waiting import until
from tests.retry.fleet import Fleet, Worker, fleet
from tests.retry.harness import (
    OUT,
    CommittedReader,
    committed,
    disorder,
    live_records,
    send,
)

PARTITIONS = 6


class Trial:
    """Messages go out number by number; between them something happens to an instance."""

    def __init__(self, workers: Fleet, outputs: CommittedReader, patience_s: float) -> None:
        self.workers = workers
        self.outputs = outputs
        self.patience_s = patience_s
        self.sent = 0

    def send(self, keys: int, numbers: range) -> None:
        self.sent += send(self.workers.servers, "orders", keys, numbers)

    def caught_up(self) -> None:
        until(
            lambda: self.outputs.poll() >= self.sent,
            f"{self.sent} outputs",
            self.patience_s,
            lambda: f"{len(self.outputs.messages)} came\n{self.workers.told()}",
        )

    def judge(self) -> None:
        self.caught_up()
        self.outputs.poll(2.0)
        assert disorder(message.value() for message in self.outputs.messages) == []
        assert len(self.outputs.messages) == self.sent
        for topic in ("orders.g.locks", "orders.g.retry"):
            assert live_records(self.workers.servers, topic) == {}, "every key is free"


@pytest.mark.parametrize("mode", ["transactional"])
def test_three_instances_killed_and_paused(tmp_path: Path, mode: str) -> None:
    options = {"group.min.session.timeout.ms": 500}
    how = (
        "--mode", mode, "--session-timeout-ms", "1500", "--transaction-timeout-ms", "2000",
        "--max-poll-interval-ms", "2000",
    )  # fmt: skip
    with EmbeddedCluster(brokers=1, options=options) as kafka:
        kafka.create_topic("orders", PARTITIONS)
        kafka.create_topic(OUT, PARTITIONS)
        servers = kafka.bootstrap_servers
        with fleet(servers, tmp_path) as workers, committed(servers, OUT) as outputs:
            trial = Trial(workers, outputs, 120.0)
            first, second, third = (workers.start(*how) for _ in range(3))
            trial.send(500, range(3))
            until(lambda: outputs.poll() > 0, "it has begun", 120.0, workers.told)
            first.kill()
            workers.start(*how)
            trial.send(500, range(3, 6))
            second.pause()
            trial.caught_up()  # the others do it
            trial.send(500, range(6, 8))
            second.resume()
            third.kill()
            trial.send(500, range(8, 10))
            trial.judge()


@pytest.mark.soak
@pytest.mark.kafka
def test_a_hundred_thousand_messages_on_apache_kafka(tmp_path: Path) -> None:
    with ApacheKafka(KafkaConfig(nodes=1, heap="512m")) as kafka:
        kafka.admin.create_topic("orders", PARTITIONS)
        kafka.admin.create_topic(OUT, PARTITIONS)
        _search(kafka.bootstrap, tmp_path, keys=5_000)


@pytest.mark.soak
def test_a_hundred_thousand_messages_on_the_embedded_cluster(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=1) as kafka:
        kafka.create_topic("orders", PARTITIONS)
        kafka.create_topic(OUT, PARTITIONS)
        _search(kafka.bootstrap_servers, tmp_path, keys=5_000)


def _search(servers: str, directory: Path, keys: int) -> None:
    chance = Random(9)
    with fleet(servers, directory) as workers, committed(servers, OUT) as outputs:
        trial = Trial(workers, outputs, 600.0)
        running = [workers.start(*HOW) for _ in range(3)]
        for number in range(20):
            trial.send(keys, range(number, number + 1))
            pause_s = 60.0 if number in (7, 14) else 8.0
            _hurt(chance, running, workers, pause_s, outputs.poll)
        trial.judge()


HOW = ("--max-poll-interval-ms", "6000")  # each pause is longer


def _hurt(
    chance: Random, running: list[Worker], workers: Fleet, pause_s: float, poll: Callable[[], int]
) -> None:
    place = chance.randrange(len(running))
    if pause_s < 60.0 and chance.random() < 0.5:
        running[place].kill()
        running[place] = workers.start(*HOW)
        return
    running[place].pause()
    end = time.monotonic() + pause_s
    while time.monotonic() < end:
        poll()
    running[place].resume()
