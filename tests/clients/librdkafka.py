"""What the tests of librdkafka share: clients, and reading until something is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from sexton.testing.embedded import EmbeddedCluster

PATIENCE_S = 30.0


def settings(cluster: EmbeddedCluster, **more: Any) -> dict[str, Any]:
    """librdkafka's settings; `a_b` stands for `a.b`."""
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **named}


def make_producer(cluster: EmbeddedCluster, **more: Any) -> Producer:
    return Producer(settings(cluster, **{"linger_ms": 0, **more}))


def transactional(cluster: EmbeddedCluster, name: str, **more: Any) -> Producer:
    """A producer whose transactions can begin."""
    producer = make_producer(cluster, transactional_id=name, **more)
    producer.init_transactions(PATIENCE_S)
    return producer


def make_consumer(cluster: EmbeddedCluster, group: str, **more: Any) -> Consumer:
    chosen = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **more}
    if "group_protocol" not in more:  # in the other protocol the broker says how often
        chosen = {"heartbeat_interval_ms": 100, **chosen}
    return Consumer(settings(cluster, group_id=group, fetch_wait_max_ms=100, **chosen))


@contextmanager
def consuming(cluster: EmbeddedCluster, topic: str, group: str, **more: Any) -> Iterator[Consumer]:
    consumer = make_consumer(cluster, group, **more)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[Message]:
    """The next so many messages."""
    found: list[Message] = []
    poll_until(lambda: len(found) >= count, f"{count} messages", consumer, found=found)
    return found


def next_error(consumer: Consumer) -> int:
    """The code of the next error, which it waits for."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        error = None if message is None else message.error()
        if error is not None:
            return error.code()
    raise AssertionError("no error came")


def poll_until(
    done: Callable[[], bool],
    what: str,
    *consumers: Consumer,
    found: list[Message] | None = None,
) -> None:
    """Lets consumers work until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"not seen in time: {what}"
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                if found is not None:
                    found.append(message)


def everything(
    cluster: EmbeddedCluster, topic: str, level: str = "read_committed"
) -> list[Message]:
    """All messages of a topic, partition after partition, up to where a reader may read."""
    consumer = make_consumer(cluster, "-", isolation_level=level, enable_partition_eof=True)
    found: list[Message] = []
    try:
        for partition in sorted(consumer.list_topics(topic).topics[topic].partitions):
            consumer.assign([TopicPartition(topic, partition, 0)])
            deadline = time.monotonic() + PATIENCE_S
            while True:
                assert time.monotonic() < deadline, f"no end of {topic}-{partition}"
                message = consumer.poll(0.5)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    break
                found.append(message)
    finally:
        consumer.close()
    return found


def values(messages: list[Message]) -> list[str]:
    return [(message.value() or b"").decode() for message in messages]
