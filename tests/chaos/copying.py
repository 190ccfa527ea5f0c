"""Exactly once: a group of clients reads one topic and writes each record to another.

What it writes and how far it has read is one transaction, so a copier may die, lose its partitions
or be fenced at any moment, and still every record is copied once. Its own memory counts for nothing
after anything went wrong: it comes back as another, and goes on from what its group has committed.
"""

from __future__ import annotations

import time
from random import Random

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.chaos.history import History
from tests.chaos.workloads import (
    COPY,
    LEDGER,
    NAME,
    PARTITIONS,
    PATIENCE_S,
    Workshop,
    begin_again,
    leave_nothing_open,
    seen,
)

GROUP = "copiers"


def copy_ledger(shop: Workshop, name: str) -> None:
    random = shop.random(name)
    while not shop.stopped.is_set():
        producer = begin_again(shop, name)
        if producer is not None:
            _copy_for_a_while(shop, producer, random)
    leave_nothing_open(shop, name)


def _copy_for_a_while(shop: Workshop, producer: Producer, random: Random) -> None:
    """Until something goes wrong, or it is another's turn: the group is always changing."""
    consumer = shop.consumer(
        "read_committed",
        **{
            "group.id": GROUP,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 300,
            "enable.partition.eof": False,
        },
    )
    consumer.subscribe([LEDGER])
    try:
        while not shop.stopped.is_set() and random.random() > 0.01:
            messages = [m for m in consumer.consume(100, 0.05) if m.error() is None]
            if messages:
                _copy(producer, consumer, messages)
                if random.random() < 0.8:
                    producer.commit_transaction(PATIENCE_S)
                    continue
                producer.abort_transaction(PATIENCE_S)
                if random.random() < 0.5:
                    return
                _rewind(consumer, messages)
    except KafkaException:
        return  # the next one begins by aborting what this one has left open
    finally:
        consumer.close()


def _copy(producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
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
    producer.send_offsets_to_transaction(offsets, group, PATIENCE_S)


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
