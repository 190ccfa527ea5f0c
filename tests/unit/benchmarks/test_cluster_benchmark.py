"""The clients and the counters of the cluster benchmark, on a small cluster of ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.cluster_traffic import Librdkafka, Load, Throughput, latency, transactions
from benchmarks.contestants import KAFKA, OURS, Contestant, sexton_up
from benchmarks.librdkafka import consumer, producer
from benchmarks.measure import By
from benchmarks.result import Unit
from benchmarks.segments import MIB
from sexton.base.errors import PeerError
from sexton.testing.embedded import EmbeddedCluster


@pytest.fixture
def kafka() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1) as running:
        yield running


def test_what_librdkafka_sends_comes_back_by_number_and_by_bytes(kafka: EmbeddedCluster) -> None:
    kafka.create_topic("records", 2)
    with producer(kafka.bootstrap_servers, "records", 100, {"acks": "all"}) as sender:
        sender.send_all(2500, 2)
    with consumer(kafka.bootstrap_servers, "records", 2, {}) as reader:
        reader.start()
        assert reader.take(2500) == (2500, 250_000)


def test_records_that_a_broker_refuses_are_no_measurement(kafka: EmbeddedCluster) -> None:
    kafka.create_topic("small", 1, {"max.message.bytes": 200})
    with (
        producer(kafka.bootstrap_servers, "small", 1024, {"acks": "all"}) as sender,
        pytest.raises(PeerError, match="too large"),
    ):
        sender.send_all(10, 1)


def test_a_transaction_is_there_when_the_call_returns(kafka: EmbeddedCluster) -> None:
    kafka.create_topic("committed", 3)
    options = {"transactional.id": "a"}
    with producer(kafka.bootstrap_servers, "committed", 10, options) as sender:
        sender.init_transactions()
        sender.transaction(4, 3)
        sender.transaction(1, 3)
    with consumer(kafka.bootstrap_servers, "committed", 3, {}) as reader:
        reader.start()
        assert reader.take(5) == (5, 50)


def test_an_option_that_there_is_not_is_refused(kafka: EmbeddedCluster) -> None:
    kafka.create_topic("records", 1)
    with pytest.raises(PeerError, match=r"no\.such\.option"):
        producer(kafka.bootstrap_servers, "records", 1, {"no.such.option": 1}).__enter__()


def test_processes_are_charged_for_cpu_and_memory() -> None:
    code = f"held = bytearray({64 * MIB}); held[::4096] = bytes(len(held[::4096]))\n"
    code += "sum(range(3_000_000)); print('worked', flush=True); input()"
    command = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        one = Contestant("one", "nowhere", 1, [process.pid])
        two = Contestant("two", "nowhere", 1, [process.pid, process.pid])
        assert 64 * MIB < one.memory < 128 * MIB
        assert 128 * MIB < two.memory < 256 * MIB
        assert one.cpu_s > 0
        assert two.cpu_s == pytest.approx(2 * one.cpu_s)
        process.communicate(b"\n")


def test_every_kind_of_traffic_runs_on_sexton_up() -> None:
    load = Load(size=100_000, transactions=2, pings=3, rounds=1)
    with sexton_up(1) as ours, sexton_up(1) as another:
        peer = replace(another, name=KAFKA)
        both, client = {OURS: ours, KAFKA: peer}, Librdkafka()
        results = [
            *Throughput(client, both, 100, load).results(),
            transactions(client, both, 500, load),
            *latency(both, load),
        ]
    told = [(result.case, result.by, result.unit) for result in results]
    case = "1 broker acks=1, librdkafka"
    assert told == [
        (f"{case}, produce 100 B", By.WALL, Unit.BYTES),
        (f"{case}, produce 100 B, brokers' CPU", By.CPU, Unit.PER_GB),
        (f"{case}, consume 100 B", By.WALL, Unit.BYTES),
        (f"{case}, consume 100 B, brokers' CPU", By.CPU, Unit.PER_GB),
        ("1 broker, librdkafka, transactions of 500 records", By.WALL, Unit.EVENTS),
        ("1 broker acks=all, librdkafka, end to end, p50", By.WALL, Unit.DURATION),
        ("1 broker acks=all, librdkafka, end to end, p99", By.WALL, Unit.DURATION),
    ]
    assert results[0].ours.records == 1000
    assert results[0].ours.size == 100_000
