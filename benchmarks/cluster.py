"""The embedded cluster beside an Apache Kafka of the same shape: one broker, and three.

First how long each takes from nothing to the first record; then, on clusters that stay up, what
clients get through them (see `cluster_traffic`), and the memory they hold after all that work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.cluster_start import SMALLER, start
from benchmarks.cluster_traffic import (
    Client,
    JavaClient,
    Librdkafka,
    Load,
    Throughput,
    latency,
    transactions,
)
from benchmarks.contestants import KAFKA, OURS, Contestant, apache_kafka, sexton_up
from benchmarks.java_programs import program
from benchmarks.measure import Answering, By, Measure
from benchmarks.registry import Setting
from benchmarks.result import Result
from benchmarks.segments import MIB

SHAPES = (1, 3)  # brokers
MOST_ROUNDS = 3
LARGE, SMALL = 1024, 100  # bytes of a record
# The size of a round is `--size` by this. The Java client sends 64 times as many requests.
SHARES = {
    (Librdkafka.name, LARGE): 8, (Librdkafka.name, SMALL): 16,
    (JavaClient.name, LARGE): 16, (JavaClient.name, SMALL): 32,
}  # fmt: skip


def run(setting: Setting) -> Iterator[Result]:
    for brokers in SHAPES:
        yield from start(setting, brokers)
    with Answering(program("Client", [])) as java:
        clients: list[Client] = [Librdkafka(), JavaClient(java)]
        for brokers in SHAPES:
            with ExitStack() as stack:
                ours = stack.enter_context(sexton_up(brokers))
                kafka = stack.enter_context(apache_kafka(brokers, keep=setting.keep))
                yield from _traffic(setting, clients, {OURS: ours, KAFKA: kafka})


def _traffic(
    setting: Setting, clients: list[Client], clusters: dict[str, Contestant]
) -> Iterator[Result]:
    rounds = min(setting.repeat, MOST_ROUNDS)
    for client in clients:
        for record_bytes in (LARGE, SMALL):
            load = _load(setting.size // SHARES[client.name, record_bytes], rounds)
            yield from Throughput(client, clusters, record_bytes, load).results()
    load = _load(setting.size, rounds)
    for client in clients:
        for records in (1, 500):
            yield transactions(client, clusters, records, load)
    yield from latency(clusters, load)
    brokers = clusters[KAFKA].brokers
    if brokers > 1:
        case = f"{brokers} brokers, memory after all this work"
        ours, kafka = (Measure(1, 0.0, 1.0, peak=each.memory) for each in clusters.values())
        yield Result("cluster", case, By.MEMORY, ours, KAFKA, kafka, SMALLER)


def _load(size: int, rounds: int) -> Load:
    """For 1 GiB: 64 transactions and 256 records one by one, in each round."""
    return Load(size, max(2, size // (16 * MIB)), max(2, size // (4 * MIB)), rounds)
