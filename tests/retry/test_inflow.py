"""What is polled comes once and in order; and soon after its partition is resumed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sexton.machines.retry_pending import Pending
from sexton.machines.retry_records import TaskName
from sexton.machines.retry_settings import Settings
from sexton.machines.retry_task import Task
from sexton.retry.handlers import Calm, Plan
from sexton.retry.inflow import Inflow
from sexton.retry.messages import Place
from sexton.retry.owned import Owned
from sexton.retry.pool import Execution
from sexton.retry.rounds import Running
from sexton.testing import EmbeddedCluster
from tests.retry.harness import PATIENCE_S

TRIES = 3
SOON_S = 0.5  # without a word librdkafka looks again after a second
PAUSED_S = 0.1  # its last answer has come by then
TAKE = 10


@pytest.fixture
def consumer(kafka: EmbeddedCluster) -> Iterator[Consumer]:
    kafka.create_topic("orders", 1)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "g",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,  # so that no answer is under way for long
        }
    )
    consumer.assign([TopicPartition("orders", 0, 0)])
    yield consumer
    consumer.close()


@pytest.fixture
def producer(kafka: EmbeddedCluster) -> Producer:
    return Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})


@pytest.fixture
def owned() -> Owned:
    name = TaskName("orders", 0)
    owned = Owned(name)
    owned.ready(Task(name, Settings(), Random(1), 0, 1, Pending()))
    return owned


def test_a_resumed_partition_is_read_at_once(
    consumer: Consumer, producer: Producer, owned: Owned
) -> None:
    inflow = Inflow(consumer, {0: owned}, TAKE)
    assert min(_seconds_to_resume(inflow, producer, owned) for _ in range(TRIES)) < SOON_S


def test_without_a_question_to_its_broker_it_is_not(
    consumer: Consumer, producer: Producer, owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inflow, "_wake", lambda inflow: inflow._resumed.clear())
    inflow = Inflow(consumer, {0: owned}, TAKE)
    assert max(_seconds_to_resume(inflow, producer, owned) for _ in range(TRIES)) > SOON_S


def _seconds_to_resume(inflow: Inflow, producer: Producer, owned: Owned) -> float:
    _send(producer, b"before")
    assert _taken(inflow) == [b"before"]
    inflow.pause([owned])
    _send(producer, b"after")
    assert inflow.take(PAUSED_S) == {}
    inflow.resume([owned])
    began = monotonic()
    assert _taken(inflow) == [b"after"]
    return monotonic() - began


def test_what_the_group_makes_us_put_back_during_a_poll_comes_first(
    kafka: EmbeddedCluster, consumer: Consumer, producer: Producer, owned: Owned
) -> None:
    """A callback may end a round from within the very poll that looks ahead."""
    for number in range(4):
        _send(producer, b"%d" % number)
    inflow = Inflow(consumer, {0: owned}, 2)
    polled = inflow.take(PATIENCE_S)[0]
    while len(polled) < 2:
        polled += inflow.take(PATIENCE_S)[0]
    calm = Calm(Place("orders", 0, 1), polled)
    calm.done = 1
    assert owned.task is not None
    running = Running([], [(owned, owned.task, calm)], Execution(Plan(), 1))

    class PutsBack:
        """The consumer, with such a callback."""

        def consume(self, count: int, _timeout_s: float) -> list[Any]:
            inflow.put_back(running)
            return list(consumer.consume(count, PATIENCE_S))

    inflow._consumer = PutsBack()  # type: ignore[assignment]
    inflow.poll_ahead()
    inflow._consumer = consumer
    taken = [message.value() for message in inflow.take(PATIENCE_S)[0]]
    assert taken == [b"1", b"2", b"3"]


def test_what_was_taken_before_is_not_read_to_its_end_again(
    consumer: Consumer, producer: Producer, owned: Owned
) -> None:
    """librdkafka may go back to the beginning after a seek, and a topic is long."""
    count = 200 * TAKE
    for number in range(count):
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    owned.taken = count - 1
    inflow, takes = Inflow(consumer, {0: owned}, TAKE), 1
    while not (found := inflow.take(PATIENCE_S)):
        takes += 1
    assert [message.value() for message in found[0]] == [b"%d" % (count - 1)]
    assert takes < 20


def test_what_comes_again_behind_what_is_new_is_not_taken_again(
    consumer: Consumer, producer: Producer, owned: Owned
) -> None:
    """A log that was cut: librdkafka goes back with messages in hand, and these come first."""
    for number in range(4):
        _send(producer, b"%d" % number)
    polled = [consumer.poll(PATIENCE_S) for _ in range(4)]
    owned.taken = 2
    inflow = Inflow(consumer, {0: owned}, TAKE)
    for message in polled[2:] + polled[:3]:
        inflow.keep(message)
    assert [message.value() for message in inflow.take(PATIENCE_S)[0]] == [b"2", b"3"]
    assert owned.taken == 4


def _send(producer: Producer, value: bytes) -> None:
    producer.produce("orders", value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def _taken(inflow: Inflow) -> list[bytes]:
    end = monotonic() + PATIENCE_S
    while monotonic() < end:
        found = inflow.take(PATIENCE_S)
        if found:
            return [message.value() for message in found[0]]
    raise TimeoutError("no message has come")
