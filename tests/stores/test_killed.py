"""Instances as processes that are killed, paused and started again: the sums stay exact.

The seed's strategy: instances start one after the other, are taken away at any moment, and sit on
their partitions while the group has given them to others. `read_committed` is asked for the truth.
"""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path

import pytest

from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import TimedOut, until
from tests.stores.counting import app
from tests.stores.harness import (
    Process,
    make_topics,
    processes,
    producer_of,
    regressions,
    restored,
    sums,
    wait_until_active,
    wait_until_written,
    write,
)


def test_kill_9_costs_nothing(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 2)
    servers = kafka.bootstrap_servers
    written = write(servers, [(i % 2, f"key_{i % 10}") for i in range(1000)])
    with processes() as started:
        first = Process(servers, tmp_path / "a")
        started.append(first)
        first.wait_until_said("task is active", 2)
        written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(2000)])
        first.kill()
        written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(1000)])
        again = Process(servers, tmp_path / "a")
        started.append(again)
        wait_until_written(servers, 2, written)
    check(servers, 2, written)
    assert not again.said("thrown away")


def test_a_paused_owner_comes_back_to_nothing(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """The group gives its tasks away; what it does when it wakes up is refused."""
    make_topics(kafka, 2)
    servers = kafka.bootstrap_servers
    written = write(servers, [(i % 2, f"key_{i % 10}") for i in range(500)])
    with processes() as started:
        owner = Process(servers, tmp_path / "a")
        started.append(owner)
        owner.wait_until_said("task is active", 2)
        owner.send(signal.SIGSTOP)
        heir = Process(servers, tmp_path / "b")
        started.append(heir)
        heir.wait_until_said("task is active", 2)
        written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(500)])
        owner.send(signal.SIGCONT)
        owner.wait_until_said("the group has gone on without us")
        written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(500)])
        wait_until_written(servers, 2, written)
    check(servers, 2, written)


def test_sigterm_is_a_clean_end(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """It commits, leaves the group and closes its stores: the next one need not wait, nor read."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    with processes() as started:
        first = Process(servers, tmp_path / "a", session_timeout_ms=60_000)
        started.append(first)
        first.wait_until_said("task is active")
        write(servers, [(0, "a")] * 10)
        wait_until_written(servers, 1, 10)
        assert first.end(signal.SIGTERM) == 0
        with app(servers, tmp_path / "a") as again:
            wait_until_active(again, 1, 30)
            assert restored(again) == 0


def check(servers: str, partitions: int, written: int) -> None:
    found = [sums(servers, partition) for partition in range(partitions)]
    assert [wrong for each in found for wrong in regressions(each)] == []
    assert sum(map(len, found)) == written


class Chaos:
    """Three instances that nobody lets be, while somebody writes."""

    def __init__(self, servers: str, partitions: int, home: Path, seed: int, **options: object):
        self.servers, self.partitions, self.home = servers, partitions, home
        self.chance = random.Random(seed)
        self.options = options
        self.written = 0
        self.instances: dict[str, Process] = {}
        self._stopping = threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)

    def start(self, name: str) -> None:
        self.instances[name] = Process(self.servers, self.home / name, **self.options)

    def _write(self) -> None:
        producer, keys = producer_of(self.servers), random.Random(0)
        while not self._stopping.wait(0.05):
            chosen = [keys.randrange(self.partitions) for _ in range(20)]
            inputs = [(number, f"key_{number}") for number in chosen]
            self.written += write(self.servers, inputs, producer)

    def run(self, rounds: int) -> None:
        names = ["a", "b", "c"]
        if not self.instances:
            self._writer.start()
        for name in names[len(self.instances) :]:  # one after the other: each is a rebalance
            self.start(name)
            self.instances[name].wait_until_said("share of the tasks")
        for _ in range(rounds):
            name = self.chance.choice(names)
            one = self.instances[name]
            if self.chance.random() < 0.6:
                said = self.chance.randrange(3, 60)
                self._after(said)
                one.kill()
                self.start(name)
                self.instances[name].wait_until_said("task is active")
            else:
                one.send(signal.SIGSTOP)
                self._after(self.chance.randrange(300, 900))
                one.send(signal.SIGCONT)

    def _after(self, records: int) -> None:
        goal = self.written + records
        until(lambda: self.written >= goal, "more is written", 180)

    def finish(self) -> list[str]:
        """Everything that is written is counted; what is wrong in the sink."""
        self._stopping.set()
        self._writer.join()
        wait_until_written(self.servers, self.partitions, self.written)
        return self.wrong()

    def wrong(self) -> list[str]:
        found = [sums(self.servers, partition) for partition in range(self.partitions)]
        return [wrong for each in found for wrong in regressions(each)]

    def close(self) -> None:
        self._stopping.set()
        for each in self.instances.values():
            if each.alive:
                each.kill()


def run(kafka: Cluster, home: Path, partitions: int, rounds: int, seed: int) -> None:
    make_topics(kafka, partitions)
    chaos = Chaos(kafka.bootstrap_servers, partitions, home, seed)
    try:
        chaos.run(rounds)
        assert chaos.finish() == []
        check(kafka.bootstrap_servers, partitions, chaos.written)
    finally:
        chaos.close()


def test_a_little_chaos(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    run(kafka, tmp_path, partitions=4, rounds=3, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_much_chaos(kafka_cluster: EmbeddedCluster, tmp_path: Path, seed: int) -> None:
    run(kafka_cluster, tmp_path, partitions=20, rounds=25, seed=seed)


@pytest.mark.soak
@pytest.mark.kafka
def test_much_chaos_on_apache_kafka(tmp_path: Path) -> None:
    with ApacheKafka(KafkaConfig(nodes=3)) as kafka:
        run(kafka, tmp_path, partitions=20, rounds=15, seed=1)


@pytest.mark.soak
def test_chaos_shows_what_trust_in_local_checkpoints_does(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    """The control: the same, believing the disk; a regression within 40 rounds, minutes at most."""
    make_topics(kafka, 20)
    chaos = Chaos(kafka.bootstrap_servers, 20, tmp_path, 1, trust_local_checkpoint=True)
    try:
        for _ in range(8):
            chaos.run(5)
            if chaos.wrong():
                return
        pytest.fail("nothing went wrong")
    except TimedOut:
        assert chaos.wrong()
    finally:
        chaos.close()
