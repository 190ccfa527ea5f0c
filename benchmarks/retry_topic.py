"""Does the lock topic stay as small as what is held?

A million locks and releases go in, some locks stay, and the topic is cleaned with the options that
ordered retry gives it, except that segments, tombstones and what is dirty need not be ten minutes,
an hour and an hour old.
Beside it a topic that never held anything but those locks.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator

from confluent_kafka import Producer

from benchmarks.contestants import Contestant
from benchmarks.measure import Measure
from sexton.client.client import Client
from sexton.client.disk_room import log_directories
from sexton.machines.retry_records import LockRecord, TaskName
from sexton.machines.retry_settings import WORKING

CYCLES, HELD = 1_000_000, 100_000
ROLL_BYTES = 8 << 20
PATIENCE_S = 120.0
CALM_S, CALM_BYTES = 20, 16 << 10  # Apache Kafka looks for something to clean every 15 s
QUICK = {
    "segment.ms": "2000", "delete.retention.ms": "1000", "max.compaction.lag.ms": "2000",
    "min.cleanable.dirty.ratio": "0.01",
}  # fmt: skip


def lock_topic_sizes(at: Contestant) -> tuple[Measure, Measure]:
    """After everything and cleaning; and what is held alone."""
    name = TaskName("orders", 0)
    alone = _size(at, _written(at, _held(name)))
    cleaned = _cleaned(at, _written(at, _cycles(name)))
    return Measure(CYCLES, 0.0, 1.0, peak=cleaned), Measure(HELD, 0.0, 1.0, peak=alone)


def _written(at: Contestant, records: Iterator[tuple[bytes, bytes | None]]) -> str:
    topic = f"locks-{uuid.uuid4().hex[:8]}"
    options = {**WORKING, **QUICK, "segment.bytes": str(ROLL_BYTES)}
    at.admin.create_topic(topic, [[1]], options)
    producer = Producer(
        {
            "bootstrap.servers": at.bootstrap, "compression.type": "lz4", "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
    )  # fmt: skip
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, 0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(PATIENCE_S)
    return topic


def _cycles(name: TaskName) -> Iterator[tuple[bytes, bytes | None]]:
    yield from _held(name)
    for message in range(HELD, HELD + CYCLES):
        lock = LockRecord(False, 1, message, message, b"key-%d" % message)
        yield name.id_of(message), lock.encode()
        yield name.id_of(message), None


def _held(name: TaskName) -> Iterator[tuple[bytes, bytes | None]]:
    for message in range(HELD):
        lock = LockRecord(False, 1, message, message, b"key-%d" % message)
        yield name.id_of(message), lock.encode()


def _cleaned(at: Contestant, topic: str) -> int:
    """The size when it has stopped shrinking; a record now and then lets segments roll."""
    producer = Producer({"bootstrap.servers": at.bootstrap})
    end, sizes = time.monotonic() + PATIENCE_S, [_size(at, topic)]
    while time.monotonic() < end:
        producer.produce(topic, b"roll", b"roll", 0)
        producer.flush(PATIENCE_S)
        time.sleep(1.0)
        sizes.append(_size(at, topic))
        settled = len(sizes) > CALM_S and max(sizes[-CALM_S:]) - sizes[-1] < CALM_BYTES
        if settled and sizes[-1] < sizes[0] / 4:
            break
    return sizes[-1]


def _size(at: Contestant, topic: str) -> int:
    async def ask() -> int:
        async with Client(at.bootstrap) as client:
            return sum(
                size
                for directory in await log_directories(client, 1)
                for place, size in directory.sizes.items()
                if place.topic == topic
            )

    return asyncio.run(ask())
