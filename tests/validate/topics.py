"""Topics, filled as an application fills them, and what a command has said of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Producer

from sexton.testing.cluster import Cluster

Run = Callable[..., tuple[int, str, str]]
Record = tuple[str | None, Any]  # key, value: text as it is, None a delete, else JSON
_NUMBERS = itertools.count(1)


def encoded(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def filled(
    cluster: Cluster,
    records: Sequence[Record],
    *,
    partitions: int = 1,
    partition: Callable[[int], int] = lambda _number: 0,
) -> str:
    """A new topic with these records; returns its name."""
    topic = f"validated-{next(_NUMBERS)}"
    cluster.create_topic(topic, partitions)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
    add(producer, topic, records, partition=partition)
    assert producer.flush(60) == 0
    return topic


def add(
    producer: Producer,
    topic: str,
    records: Sequence[Record],
    *,
    partition: Callable[[int], int] = lambda _number: 0,
) -> None:
    for number, (key, value) in enumerate(records):
        producer.produce(
            topic,
            encoded(value),
            None if key is None else key.encode(),
            partition=partition(number),
        )


def transactional(cluster: Cluster, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(60)
    return producer


def found(said: str) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = json.loads(said)["findings"]
    return findings
