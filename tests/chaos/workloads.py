"""Clients that write and read for as long as they are let, and write down what they were told.

They are real ones (librdkafka). Each thread is one client; values are never written twice, and
every record carries its own name in a header.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.history import Fate, History, Seen, Transaction, Write

LEDGER, STATE, COPY = "ledger", "state", "copy"
PARTITIONS = 2
NAME = "name"
LIVES = 40  # of these keys are there at a time
PATIENCE_S = 30.0  # with a cluster that has become calm

_QUICK = {
    "socket.timeout.ms": 5_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "topic.metadata.refresh.interval.ms": 1_000,
    "log_level": 0,
}


@dataclass(slots=True)
class Workshop:
    """What all clients share."""

    bootstrap: str
    history: History
    seed: int
    stopped: threading.Event

    @classmethod
    def to_look_around(cls, bootstrap: str) -> Workshop:
        return cls(bootstrap, History(), 0, threading.Event())

    def random(self, name: str) -> Random:
        return Random(f"{self.seed} {name}")

    def producer(self, **more: Any) -> Producer:
        config = {
            "bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 2,
            "message.timeout.ms": 60_000, **_QUICK, **more,
        }  # fmt: skip
        return Producer(config)

    def consumer(self, isolation: str, **more: Any) -> Consumer:
        config = {
            "bootstrap.servers": self.bootstrap, "group.id": "chaos", "enable.auto.commit": False,
            "isolation.level": isolation, "auto.offset.reset": "earliest",
            "enable.partition.eof": True, "fetch.wait.max.ms": 50, **_QUICK, **more,
        }  # fmt: skip
        return Consumer(config)


Work = Callable[[Workshop, str], None]


def stubborn(work: Work) -> Work:
    """An idempotent producer is never refused for good: if it is, that is written down.

    Whatever it does next raises then; in the middle of telling of deliveries, as a SystemError.
    """

    @functools.wraps(work)
    def until_refused(shop: Workshop, name: str) -> None:
        try:
            work(shop, name)
        except (KafkaException, SystemError) as error:
            with shop.history.changing() as history:
                history.refused.append(f"{name}: {error.__cause__ or error}")

    return until_refused


@stubborn
def write_ledger(shop: Workshop, name: str) -> None:
    """Numbered records, many under way at a time."""
    random, producer = shop.random(name), shop.producer()
    number = 0
    while not shop.stopped.is_set():
        for _ in range(random.randint(1, 20)):
            number += 1
            partition = random.randrange(PARTITIONS)
            own = f"{name}:{number}"
            write = Write(LEDGER, partition, name.encode(), own.encode(), own)
            _send(shop, producer, write)
        producer.poll(random.uniform(0, 0.05))
    producer.flush(PATIENCE_S)


@stubborn
def write_state(shop: Workshop, name: str) -> None:
    """Keys that come and go; each is this writer's alone, and after a while it is left alone."""
    random, producer = shop.random(name), shop.producer()
    number = 0
    while not shop.stopped.is_set():
        number += 1
        key = f"{name}-{number // 15 + random.randrange(12)}"
        own = f"{name}:{number}"
        value = None if random.random() < 0.4 else own.encode()
        partition = int(key.rsplit("-", 1)[1]) % PARTITIONS
        _send(shop, producer, Write(STATE, partition, key.encode(), value, own))
        producer.poll(random.uniform(0, 0.02))
    producer.flush(PATIENCE_S)


@stubborn
def write_and_delete(shop: Workshop, name: str) -> None:
    """Keys that are written once and deleted once: whoever is away for long misses many deletes."""
    random, producer = shop.random(name), shop.producer()
    number = 0
    while not shop.stopped.is_set():
        number += 1
        for old, value in ((number, b"%d" % number), (number - LIVES, None)):
            if old > 0:
                key, own = f"{name}-{old}".encode(), f"{name}:{old}:{'' if value else 'deleted'}"
                _send(shop, producer, Write(STATE, old % PARTITIONS, key, value, own))
        producer.poll(random.uniform(0, 0.02))
    producer.flush(PATIENCE_S)


def _send(shop: Workshop, producer: Producer, write: Write) -> None:
    with shop.history.changing() as history:
        history.writes.append(write)

    def told(error: KafkaError | None, message: Message) -> None:
        with shop.history.changing():
            if error is None:
                # librdkafka does not know where a batch is that a later one's answer vouches for.
                offset = message.offset()
                write.fate, write.offset = Fate.DONE, -1 if offset is None else offset

    while True:
        try:
            producer.produce(
                write.topic, key=write.key, value=write.value, partition=write.partition,
                headers=[(NAME, write.name.encode())], on_delivery=told,
            )  # fmt: skip
            return
        except BufferError:
            producer.poll(0.05)


def transact(shop: Workshop, name: str) -> None:
    """Transactions over both topics; some are aborted, some clients die and come back as others."""
    random, number = shop.random(name), 0
    producer: Producer | None = None
    while not shop.stopped.is_set():
        if producer is None:
            producer = begin_again(shop, name)
            continue
        transaction = Transaction()
        with shop.history.changing() as history:
            history.transactions.append(transaction)
        current = producer
        try:
            producer.begin_transaction()
            for _ in range(random.randint(1, 6)):
                number += 1
                _write_in(producer, transaction, name, number, random)
            if random.random() < 0.7:
                producer.flush(PATIENCE_S)  # else an abort takes back what was not sent yet
                time.sleep(random.uniform(0, 0.05))  # readers come by while it is open
            if random.random() < 0.1:
                producer = None  # it dies, and another takes its place
                continue
            if random.random() < 0.3:
                producer.abort_transaction(PATIENCE_S)
                transaction.ended(Fate.NOT_DONE)
            else:
                producer.commit_transaction(PATIENCE_S)
                transaction.ended(Fate.DONE)
        except KafkaException as error:
            producer = _after(current, transaction, error)
    leave_nothing_open(shop, name)


def leave_nothing_open(shop: Workshop, name: str) -> None:
    """Another client of the same transactional id: what the last one left open is aborted."""
    deadline = time.monotonic() + PATIENCE_S
    while begin_again(shop, name) is None:
        if time.monotonic() > deadline:
            with shop.history.changing() as history:
                history.unanswered.append(f"{name} cannot end its last transaction")
            return


def _write_in(
    producer: Producer, transaction: Transaction, name: str, number: int, random: Random
) -> None:
    own = f"{name}:{number}"
    if random.random() < 0.3:
        key = f"{name}-{number // 8 + random.randrange(6)}"
        value = None if random.random() < 0.4 else own.encode()
        partition = int(key.rsplit("-", 1)[1]) % PARTITIONS
        write = Write(STATE, partition, key.encode(), value, own)
    else:
        write = Write(LEDGER, random.randrange(PARTITIONS), name.encode(), own.encode(), own)
    transaction.writes.append(write)
    producer.produce(
        write.topic, key=write.key, value=write.value, partition=write.partition,
        headers=[(NAME, write.name.encode())],
    )  # fmt: skip


def begin_again(shop: Workshop, name: str, **more: Any) -> Producer | None:
    producer = shop.producer(
        **{
            "transactional.id": name,
            "transaction.timeout.ms": 10_000,
            "message.timeout.ms": 10_000,
            **more,
        }
    )
    try:
        producer.init_transactions(PATIENCE_S)
    except KafkaException:
        time.sleep(0.1)
        return None
    return producer


def _after(producer: Producer, transaction: Transaction, error: KafkaException) -> Producer | None:
    """What has become of the transaction is open, unless it can be aborted."""
    if error.args[0].txn_requires_abort():
        try:
            producer.abort_transaction(PATIENCE_S)
            transaction.ended(Fate.NOT_DONE)
        except KafkaException:
            return None
        return producer
    return None


def read_committed(shop: Workshop, name: str) -> None:
    _read(shop, name, "read_committed")


def read_uncommitted(shop: Workshop, name: str) -> None:
    _read(shop, name, "read_uncommitted")


def _read(shop: Workshop, name: str, isolation: str) -> None:
    consumer = shop.consumer(isolation)
    consumer.assign([TopicPartition(LEDGER, number, 0) for number in range(PARTITIONS)])
    mine: list[Seen] = []
    shop.history.consumers[name] = mine
    while not shop.stopped.is_set():
        mine += [seen(message) for message in consumer.consume(500, 0.1) if not message.error()]
    consumer.close()


def everything(bootstrap: str, topic: str) -> list[Seen]:
    """All that a read_committed consumer gets of a topic, partition by partition."""
    shop = Workshop.to_look_around(bootstrap)
    found: list[Seen] = []
    for partition in range(PARTITIONS):
        consumer = shop.consumer("read_committed")
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + PATIENCE_S
        ended = False
        while not ended:
            assert time.monotonic() < deadline, f"{topic}-{partition} cannot be read to its end"
            for message in consumer.consume(1000, 0.05):
                error = message.error()
                if error is None:
                    found.append(seen(message))
                else:
                    ended |= error.code() == KafkaError._PARTITION_EOF
        consumer.close()
    return found


def seen(message: Message) -> Seen:
    headers = dict(message.headers() or [])
    name = headers.get(NAME) or b""
    assert isinstance(name, bytes)
    return Seen(
        message.topic() or "", message.partition() or 0, message.offset() or 0,
        message.key() or b"", message.value(), name.decode(),
    )  # fmt: skip
