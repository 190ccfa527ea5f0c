"""Everything fails once, at the same time: the moment for which there are retries."""

from __future__ import annotations

import threading
import time
import uuid
from time import perf_counter, process_time

from confluent_kafka import Producer

from benchmarks.contestants import Contestant
from benchmarks.measure import Measure
from sexton.base.errors import PeerError
from sexton.retry import Backoff, Message, OrderedRetry

MESSAGES, KEYS, PARTITIONS = 10_000, 1_000, 4
PATIENCE_S = 120.0
LOOK_AGAIN_S = 0.002


def storm(at: Contestant) -> Measure:
    """From the first message sent until the last key is free."""
    topic = f"storm-{uuid.uuid4().hex[:8]}"
    at.create_topic(topic, PARTITIONS)
    tried: set[tuple[int, int]] = set()
    done, all_handled = 0, threading.Event()

    def handle(message: Message) -> None:
        nonlocal done
        place = (message.partition, message.offset)
        if place not in tried:
            tried.add(place)
            raise ValueError("the first time")
        done += 1
        if done == MESSAGES:
            all_handled.set()

    producer = Producer({"bootstrap.servers": at.bootstrap, "linger.ms": 5})
    with OrderedRetry(
        handle, topic=topic, group="storm", bootstrap_servers=at.bootstrap, backoff=Backoff(0)
    ) as retry:  # fmt: skip
        retry.wait_until_ready(PATIENCE_S)
        wall, cpu = perf_counter(), process_time()
        for number in range(MESSAGES):
            producer.produce(topic, b"x" * 100, b"key-%d" % (number % KEYS))
        producer.flush(PATIENCE_S)
        if not all_handled.wait(PATIENCE_S):
            raise PeerError("the storm", f"{done} of {MESSAGES} after {PATIENCE_S:g} s")
        while any(each.depth for each in retry.standings):
            if perf_counter() - wall > PATIENCE_S:
                raise PeerError("the storm", f"keys are not free after {PATIENCE_S:g} s")
            time.sleep(LOOK_AGAIN_S)
        measure = Measure(MESSAGES, process_time() - cpu, perf_counter() - wall)
    at.admin.delete_topic(topic)
    return measure
