"""What the tests of ordered retry share: messages to send, outputs to read, and the judgement.

A message's value is `key:number`, numbers rising within each key. A handler writes what it handled
to an output topic, in the transaction of its round. Whoever reads that topic as committed must see,
for each key, every number once and in order; and when all is done, no key is locked any more: that
is all there is to ordered retry.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from sexton.base.partitions import TopicPartition as Place
from sexton.client.client import Client
from sexton.client.listing import EARLIEST, LATEST, list_offsets
from sexton.client.retry_reading import read_to
from sexton.machines.retry_records import MAIN_ID
from sexton.retry import Backoff, Message, OrderedRetry
from sexton.testing.waiting import until

PATIENCE_S = 90.0  # machines that run these are busy
OUT = "handled"
AT_ONCE = Backoff(first_ms=0)
SOON = Backoff(first_ms=20, most_ms=50)


def value_of(key: int, number: int) -> bytes:
    return b"%d:%d" % (key, number)


def parse(value: bytes) -> tuple[int, int]:
    key, _, number = value.partition(b":")
    return int(key), int(number)


def send(servers: str, topic: str, keys: int, numbers: Iterable[int]) -> int:
    """For each number a message of every key; how many messages that were."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    count = 0
    for number in numbers:
        for key in range(keys):
            producer.produce(topic, value_of(key, number), b"%d" % key)
            count += 1
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return count


@contextmanager
def committed(servers: str, topic: str) -> Iterator[CommittedReader]:
    reader = CommittedReader(servers, topic)
    try:
        yield reader
    finally:
        reader.close()


class CommittedReader:
    """All of a topic, as a read_committed consumer shows it."""

    def __init__(self, servers: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "reads",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        found = self._consumer.list_topics(topic, 30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        self.messages: list[Any] = []

    def poll(self, timeout_s: float = 0.1) -> int:
        """Reads what there is; how many there are in all."""
        for message in self._consumer.consume(10_000, timeout_s):
            assert message.error() is None, message.error()
            self.messages.append(message)
        return len(self.messages)

    def until(self, count: int) -> list[Any]:
        until(lambda: self.poll() >= count, f"{count} messages", PATIENCE_S, self._so_far)
        return self.messages

    def _so_far(self) -> str:
        return f"{len(self.messages)} have come"

    def close(self) -> None:
        self._consumer.close()


# ── the judgement ──


def disorder(values: Iterable[bytes]) -> list[str]:
    """What is wrong with outputs, in the order of each partition; empty: nothing."""
    by_key: dict[int, list[int]] = defaultdict(list)
    for value in values:
        key, number = parse(value)
        by_key[key].append(number)
    found = []
    for key, numbers in sorted(by_key.items()):
        twice = [number for number, times in Counter(numbers).items() if times > 1]
        if twice:
            found.append(f"key {key}: {twice[:5]} more than once")
        if numbers != sorted(numbers):
            at = next(i for i in range(1, len(numbers)) if numbers[i] < numbers[i - 1])
            found.append(f"key {key}: {numbers[at]} after {numbers[at - 1]}")
    return found


def live_records(servers: str, topic: str) -> dict[bytes, bytes]:
    """What compaction would leave of a topic: the last value of each key, tombstones taken out.

    Without the one record of a lock topic that is of no message: which main topic it is about.
    """

    async def read() -> dict[bytes, bytes | None]:
        found: dict[bytes, bytes | None] = {}
        async with Client(servers) as client:
            partitions = (await client.topology([topic])).topics[topic].partitions
            places = [Place(topic, number) for number in partitions]
            starts = await list_offsets(client, dict.fromkeys(places, EARLIEST))
            ends = await list_offsets(client, dict.fromkeys(places, LATEST))
            for at in places:
                # To the high watermark: a transaction that is open there is waited for.
                async for rows, _ in read_to(client, at, starts[at], ends[at]):
                    keys = [key or b"" for key in rows.key.to_list()]
                    found.update(zip(keys, rows.value.to_list(), strict=True))
        return found

    found = asyncio.run(read()).items()
    return {key: value for key, value in found if value is not None and key != MAIN_ID}


# ── handlers ──


@dataclass(slots=True)
class Flaky:
    """Fails each message whose number is in `failing` so many times, then writes it to OUT."""

    failing: frozenset[int]
    times: int = 1
    runs: Counter[str] = field(default_factory=Counter)
    story: list[tuple[int, int, bool]] = field(default_factory=list)  # key, number, worked
    at_once: Counter[bytes] = field(default_factory=Counter)
    overlaps: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, message: Message) -> None:
        key, number = parse(message.value)
        with self.lock:
            self.at_once[message.key] += 1
            self.overlaps += self.at_once[message.key] > 1
            self.runs[message.id] += 1
            works = number not in self.failing or self.runs[message.id] > self.times
            self.story.append((key, number, works))
        try:
            if not works:
                raise ValueError(f"not yet: {message.id}")
            message.send(OUT, message.value, message.key)
        finally:
            with self.lock:
                self.at_once[message.key] -= 1


def drained(retry: OrderedRetry) -> bool:
    """Nothing waits in this instance."""
    standings = retry.standings
    return bool(standings) and all(each.ready and not each.depth for each in standings)


def until_drained(*retries: OrderedRetry) -> None:
    until(
        lambda: all(map(drained, retries)),
        "every key free",
        PATIENCE_S,
        lambda: str([retry.standings for retry in retries]),
    )
