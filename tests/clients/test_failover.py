"""Brokers die while clients write with acks=all and idempotence: nothing is lost, nothing twice.

Each producer writes numbers, one after the other, to one partition whose leader is killed again and
again. What it was told is written must be there once, in order; and it is told so of everything.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, TopicPartition

from sexton.testing.apache_kafka import tool_command
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.kafka_jars import KAFKA_4, kafka_jars
from tests.clients.java import SOURCES
from tests.clients.librdkafka import (
    PATIENCE_S,
    consuming,
    everything,
    make_producer,
    poll_until,
    take,
    transactional,
    values,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how it finds its own files
    from kafka import KafkaProducer

FAILOVERS = 3
MOST = 50_000  # numbers that are written at most, however slow the failovers are
AT_A_TIME = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as cluster:
        yield cluster


Write = Callable[[EmbeddedCluster, str, threading.Event], int]


def with_librdkafka(cluster: EmbeddedCluster, topic: str, enough: threading.Event) -> int:
    producer = make_producer(cluster, enable_idempotence=True, retry_backoff_ms=20)
    told: list[Any] = []
    number = 0
    while not enough.is_set() and number < MOST:
        for _ in range(AT_A_TIME):
            producer.produce(topic, str(number), on_delivery=lambda error, _: told.append(error))
            number += 1
        producer.poll(0.01)
    assert producer.flush(PATIENCE_S) == 0
    assert told == [None] * number
    return number


def with_kafka_python(cluster: EmbeddedCluster, topic: str, enough: threading.Event) -> int:
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True, acks="all"
    )
    waiting: list[Any] = []
    while not enough.is_set() and len(waiting) < MOST:
        for _ in range(AT_A_TIME):
            waiting.append(producer.send(topic, str(len(waiting)).encode()))
        enough.wait(0.01)
    for each in waiting:
        each.get(PATIENCE_S)
    producer.close()
    return len(waiting)


def with_aiokafka(cluster: EmbeddedCluster, topic: str, enough: threading.Event) -> int:
    async def write() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True, acks="all"
        )
        await producer.start()
        waiting: list[Any] = []
        while not enough.is_set() and len(waiting) < MOST:
            for _ in range(AT_A_TIME):
                waiting.append(await producer.send(topic, str(len(waiting)).encode()))
            await asyncio.sleep(0.01)
        await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
        await producer.stop()
        return len(waiting)

    return asyncio.run(write())


def with_java(cluster: EmbeddedCluster, topic: str, enough: threading.Event) -> int:
    arguments = [cluster.bootstrap_servers, topic]
    command = tool_command(kafka_jars(KAFKA_4), str(SOURCES / "Numbers.java"), arguments)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        enough.wait(2 * PATIENCE_S)
        told, _ = process.communicate(timeout=2 * PATIENCE_S)
    return int(told)


@contextmanager
def writing(write: Write, cluster: EmbeddedCluster, topic: str) -> Iterator[list[int]]:
    """Writes in a thread until the block ends; then the list has how many numbers it wrote."""
    enough, written, failed = threading.Event(), list[int](), list[BaseException]()

    def work() -> None:
        try:
            written.append(write(cluster, topic, enough))
        except BaseException as error:  # noqa: BLE001  raised below, in the test's own thread
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield written
    finally:
        enough.set()
        thread.join(4 * PATIENCE_S)
    if failed:
        raise failed[0]


def await_records(cluster: EmbeddedCluster, topic: str, more: int) -> None:
    leader = cluster.leader_of(topic)
    wanted = cluster.offsets(topic)[leader].log_end + more
    cluster.wait_until(lambda: cluster.offsets(topic)[leader].log_end >= wanted, "records come in")


def fail_over(cluster: EmbeddedCluster, topic: str) -> None:
    """The leader of partition 0 dies; once another one leads, it comes back."""
    old = cluster.leader_of(topic)
    cluster.kill(old)
    cluster.wait_for(topic, 0, lambda state: state.leader not in (old, -1))
    cluster.restart(old)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # kafka-python leaves sockets behind
@pytest.mark.parametrize(
    "write",
    [
        with_librdkafka,
        with_kafka_python,
        with_aiokafka,
        pytest.param(with_java, marks=pytest.mark.kafka),
    ],
)
def test_nothing_is_lost_and_nothing_is_there_twice(cluster: EmbeddedCluster, write: Write) -> None:
    topic = write.__name__
    cluster.create_topic(topic, [[1, 2, 3]])
    with writing(write, cluster, topic) as written:
        for _ in range(FAILOVERS):
            await_records(cluster, topic, 50)
            fail_over(cluster, topic)
            cluster.wait_until_in_sync(topic)
    gc.collect()
    (count,) = written
    assert count > 50 * FAILOVERS
    assert_each_once_in_order(cluster, topic, count)


def assert_each_once_in_order(cluster: EmbeddedCluster, topic: str, count: int) -> None:
    assert values(everything(cluster, topic)) == [str(number) for number in range(count)]


@pytest.mark.parametrize(
    ("what", "numbers", "seen"),
    [
        ("as-written", [0, 1, 2], False),
        ("lost", [0, 2], True),
        ("lost-at-the-end", [0, 1], True),
        ("twice", [0, 1, 1, 2], True),
        ("again-later", [0, 1, 2, 1], True),
        ("reordered", [0, 2, 1], True),
    ],
)
def test_what_is_lost_twice_or_reordered_would_be_seen(
    cluster: EmbeddedCluster, what: str, numbers: list[int], seen: bool
) -> None:
    """The other tests prove something only if this check can fail: a client wrote it so."""
    topic = f"three-numbers-{what}"
    cluster.create_topic(topic, [[1, 2, 3]])
    producer = make_producer(cluster)
    for number in numbers:
        producer.produce(topic, str(number))
    assert producer.flush(PATIENCE_S) == 0
    with pytest.raises(AssertionError) if seen else nullcontext():
        assert_each_once_in_order(cluster, topic, 3)


def test_a_group_outlives_its_coordinator(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("followed", 2)
    producer = make_producer(cluster, enable_idempotence=True)

    def write(*numbers: int) -> None:
        for number in numbers:
            producer.produce("followed", str(number), partition=0)
        assert producer.flush(PATIENCE_S) == 0

    write(0, 1, 2)
    with consuming(cluster, "followed", "followers") as consumer:
        take(consumer, 3)
        consumer.commit(asynchronous=False)
        coordinator = cluster.leader_of("__consumer_offsets")
        cluster.kill(coordinator)
        write(3, 4)
        assert values(take(consumer, 2)) == ["3", "4"]
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([TopicPartition("followed", 0)], PATIENCE_S)
        assert committed.offset == 5
        cluster.restart(coordinator)
        poll_until(lambda: len(consumer.assignment()) == 2, "it has both", consumer)


def test_transactions_outlive_their_coordinator(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("transacted", 2)
    producer = transactional(cluster, "survivor")
    expected = []
    for number in range(12):
        while True:  # until it is committed: a transaction may be aborted by a failover
            producer.begin_transaction()
            try:
                for partition in range(2):
                    producer.produce("transacted", str(number), partition=partition)
                if number % 4 == 2:
                    fail_over(cluster, "__transaction_state")
                producer.commit_transaction(PATIENCE_S)
                break
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(PATIENCE_S)
        expected.append(str(number))
    assert values(everything(cluster, "transacted")) == expected * 2


@pytest.mark.parametrize(("acks", "kept"), [("all", ["before", "meanwhile"]), ("1", ["before"])])
def test_a_record_is_safe_only_if_all_acknowledged_it(
    cluster: EmbeddedCluster, acks: str, kept: list[str]
) -> None:
    """The leader is cut off from the others while it is written to, and another one takes over.

    With acks=1 what it acknowledged goes with it: were that not to be seen here, the other tests
    could not see a loss either.
    """
    topic = f"cut-off-{acks}"
    cluster.create_topic(topic, [[1, 2, 3]])
    producer = make_producer(cluster, acks=acks)
    told: list[Any] = []

    def write(word: str) -> None:
        producer.produce(topic, word, on_delivery=lambda error, _: told.append(error))

    write("before")
    assert producer.flush(PATIENCE_S) == 0
    cluster.wait_until(
        lambda: all(each.high_watermark == 1 for each in cluster.offsets(topic).values()),
        "everyone has the first one",
    )
    cluster.isolate(1)
    write("meanwhile")
    if acks == "1":
        assert producer.flush(PATIENCE_S) == 0
    cluster.wait_for(topic, 0, lambda state: state.leader not in (1, -1))
    cluster.heal()
    cluster.wait_until_in_sync(topic)
    assert producer.flush(PATIENCE_S) == 0
    assert told == [None, None], "both were acknowledged"
    assert values(everything(cluster, topic)) == kept
