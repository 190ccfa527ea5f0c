"""What clients get through a cluster: bytes in and out, transactions, and a record's travel time.

The same client does the same to both clusters in turns. Both run all the time, idle while the other
is measured, and have been warmed by a round of each kind that does not count. A topic has as many
partitions as there are brokers, each of them with a replica on every broker.

CPU is that of the brokers, for a gigabyte of values; the client's own is not in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import ClassVar

from benchmarks import librdkafka
from benchmarks.contestants import KAFKA, OURS, Contestant
from benchmarks.measure import Answering, By, Measure, Work, race
from benchmarks.result import Result, TimesAsFast, Unit
from sexton.base.errors import PeerError

AS_FAST = TimesAsFast(1)
TWICE_AS_FAST = TimesAsFast(2)
TRANSACTION_BYTES = 100  # of a record
MOST_SECONDS = 6.0  # of rounds in a race: there are many, and the slow ones are no noisier


@dataclass(frozen=True, slots=True)
class Load:
    """How much of it."""

    size: int  # bytes of values in a round
    transactions: int  # in a round
    pings: int  # in a round
    rounds: int


class Librdkafka:
    name = "librdkafka"

    def produce(self, at: Contestant, topic: str, records: int, record_bytes: int) -> Measure:
        options = {"acks": _acks(at)}
        with librdkafka.producer(at.bootstrap, topic, record_bytes, options) as producer:
            return _timed(at, records, record_bytes, lambda: producer.send_all(records, at.brokers))

    def consume(self, at: Contestant, topic: str, records: int, record_bytes: int) -> Measure:
        with librdkafka.consumer(at.bootstrap, topic, at.brokers, {}) as consumer:

            def read() -> None:
                consumer.start()
                _agree(consumer.take(records), (records, records * record_bytes))

            return _timed(at, records, record_bytes, read)

    def transact(self, at: Contestant, topic: str, count: int, records: int) -> Measure:
        options = {"transactional.id": str(uuid.uuid4())}
        with librdkafka.producer(at.bootstrap, topic, TRANSACTION_BYTES, options) as producer:
            producer.init_transactions()

            def work() -> None:
                for _ in range(count):
                    producer.transaction(records, at.brokers)

            return _timed(at, count, records * TRANSACTION_BYTES, work)


@dataclass(frozen=True, slots=True)
class JavaClient:
    """Kafka's own, in a JVM that serves both contestants (see Client.java)."""

    warm: Answering
    name: ClassVar[str] = "Java client"

    def produce(self, at: Contestant, topic: str, records: int, record_bytes: int) -> Measure:
        what = f"produce {self._topic(at, topic)} {records} {record_bytes} {_acks(at)}"
        return self._told(at, what, records, record_bytes)

    def consume(self, at: Contestant, topic: str, records: int, record_bytes: int) -> Measure:
        what = f"consume {self._topic(at, topic)} {records}"
        measure = self._told(at, what, records, record_bytes)
        _agree((measure.records, self.warm.sums[-1]), (records, records * record_bytes))
        return measure

    def transact(self, at: Contestant, topic: str, count: int, records: int) -> Measure:
        what = f"transact {self._topic(at, topic)} {count} {records} {TRANSACTION_BYTES}"
        return self._told(at, what, count, records * TRANSACTION_BYTES)

    def _topic(self, at: Contestant, topic: str) -> str:
        return f"{at.bootstrap} {topic} {at.brokers}"

    def _told(self, at: Contestant, what: str, events: int, event_bytes: int) -> Measure:
        """By the client's own clock, which starts when it is connected."""
        cpu = at.cpu_s
        wall_s = self.warm.round(what).wall_s
        return Measure(events, at.cpu_s - cpu, wall_s, events * event_bytes)


Client = Librdkafka | JavaClient


def _timed(at: Contestant, events: int, event_bytes: int, work: Callable[[], None]) -> Measure:
    cpu, wall = at.cpu_s, perf_counter()
    work()
    wall_s = perf_counter() - wall
    return Measure(events, at.cpu_s - cpu, wall_s, events * event_bytes)


def _agree(came: tuple[int, int], sent: tuple[int, int]) -> None:
    if came != sent:
        raise PeerError("the consumer", f"saw {came} records and bytes where {sent} were sent")


def _acks(at: Contestant) -> str:
    return "1" if at.brokers == 1 else "all"


# ── produce and consume ──


@dataclass(slots=True)
class Throughput:
    """One client, one size of record, on both clusters."""

    client: Client
    at: Mapping[str, Contestant]
    record_bytes: int
    load: Load

    def results(self) -> Iterator[Result]:
        records = max(1, self.load.size // self.record_bytes)
        rounds = self.load.rounds
        topics: dict[str, str] = {}
        produce = {
            name: partial(self._produce, at, topics, records) for name, at in self.at.items()
        }
        yield from self._told("produce", _warm_race(produce, rounds))
        consume = {
            name: partial(self.client.consume, at, topics[name], records, self.record_bytes)
            for name, at in self.at.items()
        }
        yield from self._told("consume", _warm_race(consume, rounds))
        for name, at in self.at.items():
            at.admin.delete_topic(topics[name])

    def _produce(self, at: Contestant, topics: dict[str, str], records: int) -> Measure:
        """To a new topic; that of the last round goes."""
        before = topics.get(at.name)
        topic = topics[at.name] = f"records-{uuid.uuid4().hex}"
        at.create_topic(topic, at.brokers)
        if before is not None:
            at.admin.delete_topic(before)
        return self.client.produce(at, topic, records, self.record_bytes)

    def _told(self, verb: str, best: Mapping[str, Measure]) -> Iterator[Result]:
        at = self.at[KAFKA]
        size = "1 KiB" if self.record_bytes == 1024 else f"{self.record_bytes} B"
        case = f"{_shape(at)}, {self.client.name}, {verb} {size}"
        pair = (best[OURS], KAFKA, best[KAFKA])
        yield Result("cluster", case, By.WALL, *pair, AS_FAST, Unit.BYTES)
        yield Result("cluster", f"{case}, brokers' CPU", By.CPU, *pair, None, Unit.PER_GB)


def _warm_race(contestants: Mapping[str, Work], rounds: int) -> dict[str, Measure]:
    """By wall time, after a round that does not count: a JVM compiles what it finds it does."""
    for work in contestants.values():
        work()
    return race(contestants, By.WALL, rounds, MOST_SECONDS)


def _shape(at: Contestant) -> str:
    return "1 broker acks=1" if at.brokers == 1 else f"{at.brokers} brokers acks=all"


def _brokers(at: Contestant) -> str:
    return "1 broker" if at.brokers == 1 else f"{at.brokers} brokers"


# ── transactions ──


def transactions(
    client: Client, clusters: Mapping[str, Contestant], records: int, load: Load
) -> Result:
    """A second, one after the other, of so many records each."""
    topic = f"transactions-{uuid.uuid4().hex}"
    for at in clusters.values():
        at.create_topic(topic, at.brokers)
    transact = {
        name: partial(client.transact, at, topic, load.transactions, records)
        for name, at in clusters.items()
    }
    best = _warm_race(transact, load.rounds)
    of = "1 record" if records == 1 else f"{records} records"
    case = f"{_brokers(clusters[KAFKA])}, {client.name}, transactions of {of}"
    pair = (best[OURS], KAFKA, best[KAFKA])
    return Result("cluster", case, By.WALL, *pair, TWICE_AS_FAST, Unit.EVENTS)


# ── latency ──


def latency(clusters: Mapping[str, Contestant], load: Load) -> Iterator[Result]:
    """From a record's send to its arrival at a consumer that waits, one at a time, acks=all."""
    topic = f"pings-{uuid.uuid4().hex}"
    seen: dict[str, list[float]] = {name: [] for name in clusters}
    for at in clusters.values():
        at.create_topic(topic, 1)
    start = 0
    for number in range(1 + load.rounds):
        for name, at in clusters.items():
            taken = _pings(at, topic, load.pings, start)
            if number > 0:  # the first warms
                seen[name] += taken
        start += load.pings
    for share in (50, 99):
        ours, theirs = (_percentile(seen[name], share) for name in (OURS, KAFKA))
        case = f"{_brokers(clusters[KAFKA])} acks=all, librdkafka, end to end, p{share}"
        pair = (ours, KAFKA, theirs)
        yield Result("cluster", case, By.WALL, *pair, None, Unit.DURATION)


def _pings(at: Contestant, topic: str, count: int, start: int) -> list[float]:
    options = {"acks": "all", "linger.ms": 0}
    with (
        librdkafka.producer(at.bootstrap, topic, TRANSACTION_BYTES, options) as producer,
        librdkafka.consumer(at.bootstrap, topic, 1, {}) as consumer,
    ):
        consumer.start(start)
        taken = []
        for _ in range(count):
            began = perf_counter()
            producer.send(0, 1)
            consumer.take(1)
            taken.append(perf_counter() - began)
        producer.flush()
        return taken


def _percentile(seconds: list[float], share: int) -> Measure:
    ordered = sorted(seconds)
    return Measure(1, 0.0, ordered[min(len(ordered) - 1, len(ordered) * share // 100)])
