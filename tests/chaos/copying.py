"""Exactly once: a group of clients reads one topic and writes each record to another.

What it writes and how far it has read is one transaction, so a copier may die, lose its partitions
or be fenced at any moment, and still every record is copied once. Its own memory counts for nothing
after anything went wrong: it comes back as another, and goes on from what its group has committed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from sexton.testing.waiting import TimedOut, until
from tests.chaos.checker import Violation
from tests.chaos.hanging import LeftBehind, Pulse, patiently
from tests.chaos.history import History
from tests.chaos.workloads import (
    COPY,
    LEDGER,
    NAME,
    PARTITIONS,
    PATIENCE_S,
    Workshop,
    begin_again,
    seen,
)

GROUP = "copiers"
AT_ONCE = 20_000  # in one transaction, where there is much to copy


def copy_ledger(shop: Workshop, name: str) -> None:
    random = shop.random(name)
    while not shop.stopped.is_set():
        pulse = Pulse()
        producer = begin_again(shop, name, **pulse.settings)
        if producer is not None:
            _copy_for_a_while(Copier(shop, name, producer, pulse), random)


@dataclass(frozen=True, slots=True)
class Copier:
    shop: Workshop
    name: str
    producer: Producer
    pulse: Pulse


def _copy_for_a_while(copier: Copier, random: Random) -> None:
    """Until something goes wrong, or it is another's turn: the group is always changing."""
    shop, producer = copier.shop, copier.producer
    consumer = _member(shop)
    try:
        while not shop.stopped.is_set() and random.random() > 0.01:
            messages = [m for m in consumer.consume(100, 0.05) if m.error() is None]
            if messages:
                _copy(copier, consumer, messages)
                if random.random() < 0.7:
                    producer.commit_transaction(PATIENCE_S)
                    continue
                producer.abort_transaction(PATIENCE_S)
                if random.random() < 0.5:
                    with shop.history.changing() as history:
                        history.given_up += 1
                    return
                _rewind(consumer, messages)
    except (KafkaException, LeftBehind):
        return  # the next one begins by aborting what this one has left open
    finally:
        consumer.close()


def _member(shop: Workshop) -> Consumer:
    consumer = shop.consumer(
        "read_committed",
        **{"group.id": GROUP, "session.timeout.ms": 6_000, "heartbeat.interval.ms": 300},
    )
    consumer.subscribe([LEDGER])
    return consumer


def copy_the_rest(bootstrap: str, history: History) -> Iterator[Violation]:
    """All is calm: one more copier does what the others have left to do."""
    name, shop, pulse = "last-copier", Workshop(bootstrap, history, 0, threading.Event()), Pulse()
    producer = begin_again(shop, name, **pulse.settings)
    if producer is None:
        yield Violation("cannot-copy", "no transaction can begin")
        return
    consumer = _member(shop)
    try:
        messages = _rest(consumer)
        for start in range(0, len(messages), AT_ONCE):
            part = messages[start : start + AT_ONCE]
            _copy(Copier(shop, name, producer, pulse), consumer, part)
            producer.commit_transaction(PATIENCE_S)
    except (KafkaException, LeftBehind, TimedOut) as error:
        yield Violation("cannot-copy", str(error))
    finally:
        consumer.close()


def _rest(consumer: Consumer) -> list[Message]:
    messages: list[Message] = []
    ended: set[int | None] = set()

    def at_the_end() -> bool:
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        return len(ended) == PARTITIONS

    until(at_the_end, f"the end of {LEDGER}, as a member of the group", PATIENCE_S)
    return messages


def _copy(copier: Copier, consumer: Consumer, messages: list[Message]) -> None:
    producer = copier.producer
    producer.begin_transaction()
    read: dict[int, int] = {}
    for message in messages:
        original = seen(message)
        read[original.partition] = original.offset + 1
        producer.produce(
            COPY, key=original.key, value=original.value, partition=original.partition,
            headers=[(NAME, original.name.encode())],
        )  # fmt: skip
    offsets = [TopicPartition(LEDGER, partition, offset) for partition, offset in read.items()]
    group = consumer.consumer_group_metadata()
    patiently(
        lambda seconds: producer.send_offsets_to_transaction(offsets, group, seconds),
        producer, copier.pulse, copier.shop.history, copier.name,
    )  # fmt: skip


def _rewind(consumer: Consumer, messages: list[Message]) -> None:
    first: dict[int, int] = {}
    for message in messages:
        original = seen(message)
        first.setdefault(original.partition, original.offset)
    for partition, offset in first.items():
        consumer.seek(TopicPartition(LEDGER, partition, offset))


def watch_group(shop: Workshop, name: str) -> None:
    """Asks again and again what the group has committed."""
    consumer = shop.consumer("read_committed", **{"group.id": GROUP})
    while not shop.stopped.is_set():
        try:
            told = _committed(consumer, 5.0)
        except KafkaException:
            continue
        with shop.history.changing() as history:
            history.committed.append(told)
        time.sleep(0.1)
    consumer.close()


def committed_by_group(bootstrap: str, history: History) -> dict[int, int]:
    """What the group has committed in the end, and the last that is told of it."""
    shop = Workshop.to_look_around(bootstrap)
    consumer = shop.consumer("read_committed", **{"group.id": GROUP})
    told = _committed(consumer, PATIENCE_S)
    consumer.close()
    history.committed.append(told)
    return told


def _committed(consumer: Consumer, timeout_s: float) -> dict[int, int]:
    partitions = [TopicPartition(LEDGER, number) for number in range(PARTITIONS)]
    told = consumer.committed(partitions, timeout_s)
    for each in told:
        if each.error is not None:
            raise KafkaException(each.error)
    return {each.partition: each.offset for each in told if each.offset >= 0}
