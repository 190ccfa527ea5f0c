"""What the tests of the sink share: rows with an order, a consumer, and trouble at a given step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned

from sexton.testing.embedded import EmbeddedCluster


class Injected(Exception):
    """A process that dies here, as far as Kafka can see."""


def fail_at(step: str, mark: Path, batch: int = 0) -> Callable[[str, int], None]:
    """A probe that fails once at a step of a batch, whichever process is there."""

    def probe(now: str, number: int) -> None:
        if (now, number) == (step, batch) and not mark.exists():
            mark.touch()
            raise Injected(f"{step} of batch {number}")

    return probe


def committed(
    cluster: EmbeddedCluster, topic: str, partitions: int
) -> list[tuple[int, bytes | None, bytes | None]]:
    """(partition, key, value) of all that a read_committed consumer sees, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: list[tuple[int, bytes | None, bytes | None]] = []
    try:
        consumer.assign([Assigned(topic, number, 0) for number in range(partitions)])
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(30)
            assert message is not None, "nothing is heard of the topic"
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                ended.add(partition)
            else:
                found.append((partition, message.key(), message.value()))
    finally:
        consumer.close()
    return found


def trouble(seen: Iterable[tuple[int, bytes | None, bytes | None]], expected: int) -> list[str]:
    """What is wrong with values that should be 0 up to `expected`, each once, in order by key."""
    numbers: list[int] = []
    last: dict[bytes | None, int] = {}
    wrong = []
    for _partition, key, value in seen:
        number = int(value or b"")
        if last.get(key, -1) >= number:
            wrong.append(f"{number} after {last[key]}")
        last[key] = max(number, last.get(key, -1))
        numbers.append(number)
    lost = sorted(set(range(expected)) - set(numbers))
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if lost:
        wrong.append(f"lost: {lost[:5]}")
    if twice:
        wrong.append(f"twice: {twice[:5]}")
    return wrong
