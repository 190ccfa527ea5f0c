"""Nothing fails: what does ordered retry cost beside a loop that has none?

Both read the same messages and write each to another topic, in transactions of the same size. The
plain loop is what one writes with confluent-kafka: consume, produce, offsets, commit. A round is
everything from the first message read to the last commit; both begin with a full topic.
"""

from __future__ import annotations

import threading
import time
import uuid
from time import perf_counter, process_time

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.contestants import Contestant
from benchmarks.measure import Measure
from sexton.retry import Message, OrderedRetry

MESSAGES, PARTITIONS, BATCH = 400_000, 4, 1_000
PATIENCE_S = 120.0
LOOK_AGAIN_S = 0.002


_made: dict[str, tuple[str, str]] = {}  # topics, by cluster


def _topics(at: Contestant) -> tuple[str, str]:
    if at.bootstrap not in _made:
        _made[at.bootstrap] = _filled(at)
    return _made[at.bootstrap]


def _filled(at: Contestant) -> tuple[str, str]:
    topic, out = (f"calm-{name}-{uuid.uuid4().hex[:8]}" for name in ("in", "out"))
    at.create_topic(topic, PARTITIONS)
    at.create_topic(out, PARTITIONS)
    room = {"queue.buffering.max.messages": MESSAGES}  # librdkafka's own is a quarter of it
    producer = Producer({"bootstrap.servers": at.bootstrap, "linger.ms": 5, **room})
    for number in range(MESSAGES):
        producer.produce(topic, b"x" * 100, b"key-%d" % (number % 10_000))
        producer.poll(0)
    producer.flush(PATIENCE_S)
    return topic, out


def ours(at: Contestant) -> Measure:
    topic, out = _topics(at)
    done, began, all_handled = 0, 0.0, threading.Event()

    def handle(message: Message) -> None:
        nonlocal done, began
        if not done:
            began = perf_counter()
        done += 1
        message.send(out, message.value, message.key)
        if done == MESSAGES:
            all_handled.set()

    cpu = process_time()
    with OrderedRetry(
        handle, topic=topic, group=f"calm-{uuid.uuid4().hex}", bootstrap_servers=at.bootstrap,
        max_batch=BATCH,
    ) as retry:  # fmt: skip
        retry.wait_until_ready(PATIENCE_S)
        assert all_handled.wait(PATIENCE_S), f"{done} of {MESSAGES} after {PATIENCE_S:g} s"
        while sum(each.position for each in retry.standings) < MESSAGES:
            time.sleep(LOOK_AGAIN_S)
        return Measure(MESSAGES, process_time() - cpu, perf_counter() - began)


def plain(at: Contestant) -> Measure:
    topic, out = _topics(at)
    producer = Producer(
        {
            "bootstrap.servers": at.bootstrap, "transactional.id": uuid.uuid4().hex, "linger.ms": 2,
            "compression.type": "lz4", "retry.backoff.ms": 2, "retry.backoff.max.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
        }
    )  # fmt: skip
    producer.init_transactions(PATIENCE_S)
    consumer = Consumer(
        {
            "bootstrap.servers": at.bootstrap, "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "queued.min.messages": 100_000, "fetch.queue.backoff.ms": 10,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    done, began, cpu = 0, 0.0, process_time()
    while done < MESSAGES:
        messages = consumer.consume(BATCH, 0.1)
        if not messages:
            continue
        began = began or perf_counter()
        producer.begin_transaction()
        offsets: dict[int, int] = {}
        for message in messages:
            producer.produce(out, message.value(), message.key())
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            offsets[partition] = offset + 1
        places = [TopicPartition(topic, partition, end) for partition, end in offsets.items()]
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(places, metadata, PATIENCE_S)
        producer.commit_transaction(PATIENCE_S)
        done += len(messages)
    measure = Measure(MESSAGES, process_time() - cpu, perf_counter() - began)
    consumer.close()
    return measure
