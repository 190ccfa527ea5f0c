"""A start behind a long lock topic, and the memory of what it finds there.

The topic is written as instances write it: in transactions, a lock and later its tombstone for most
messages, a lock alone for those that are held. Their messages are in the retry topic.
"""

from __future__ import annotations

import tracemalloc
import uuid
from random import Random

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.contestants import Contestant
from benchmarks.measure import Measure
from sexton.machines.retry_records import LockRecord, RetryRecord, TaskName, Watermark
from sexton.machines.retry_settings import Settings
from sexton.machines.retry_startup import Committed, Ends, LocksRead, RetriesRead, Started, StartUp
from sexton.retry import Message, OrderedRetry

LOCK_RECORDS, HELD = 1_000_000, 10_000
IN_TRANSACTION = 10_000
GROUP = "start"
PATIENCE_S = 120.0
LATER_MS = 4_000_000_000_000
_made: dict[str, str] = {}  # topics, by cluster


def cold_start(at: Contestant) -> Measure:
    """From assignment to ready, with everything that a start does."""
    topic = _made.get(at.bootstrap)
    if topic is None:
        topic = _made[at.bootstrap] = f"start-{uuid.uuid4().hex[:8]}"
        at.create_topic(topic, 1)
        with _instance(at, topic) as retry:  # makes the other topics
            retry.wait_until_ready(PATIENCE_S)
        fill(at, topic, LOCK_RECORDS, HELD)
    with _instance(at, topic) as retry:
        retry.wait_until_ready(PATIENCE_S)
        (standing,) = retry.standings
        assert standing.depth == HELD, "a start is never partial"
        return Measure(LOCK_RECORDS, 0.0, standing.barrier_s)


def _instance(at: Contestant, topic: str) -> OrderedRetry:
    def handle(message: Message) -> None:
        raise AssertionError(f"{message.id} is not due")

    return OrderedRetry(handle, topic=topic, group=GROUP, bootstrap_servers=at.bootstrap)


def fill(at: Contestant, topic: str, records: int, held: int) -> None:
    """So many lock records; the last `held` messages of them still wait."""
    name = TaskName(topic, 0)
    producer = Producer(
        {
            "bootstrap.servers": at.bootstrap, "transactional.id": uuid.uuid4().hex,
            "compression.type": "lz4", "queue.buffering.max.messages": 1_000_000,
        }
    )  # fmt: skip
    producer.init_transactions(PATIENCE_S)
    settled = (records - held) // 2
    _main(at, topic, settled + held)
    written = 0
    producer.begin_transaction()
    for message in range(settled + held):
        key = name.id_of(message)
        lock = LockRecord(False, 1, LATER_MS, 1_700_000_000_000, b"key-%d" % message)
        producer.produce(f"{topic}.{GROUP}.locks", lock.encode(), key, 0)
        if message < settled:
            producer.produce(f"{topic}.{GROUP}.locks", None, key, 0)
        else:
            value, headers = RetryRecord(b"k", lock.key, b"x" * 100, (), 1).encode()
            told = [*headers]
            producer.produce(f"{topic}.{GROUP}.retry", value, key, 0, headers=told)  # type: ignore[arg-type]
        written += 2
        if written >= IN_TRANSACTION:
            producer.commit_transaction(PATIENCE_S)
            producer.begin_transaction()
            written = 0
    producer.commit_transaction(PATIENCE_S)


def _main(at: Contestant, topic: str, messages: int) -> None:
    """The messages themselves, all of them read: below the first that is held nothing waits."""
    producer = Producer({"bootstrap.servers": at.bootstrap, "linger.ms": 5})
    for number in range(messages):
        while True:
            try:
                producer.produce(topic, b"x", b"key-%d" % number, 0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": at.bootstrap, "group.id": GROUP})
    told = Watermark(messages - HELD, 1).encode()
    offset = TopicPartition(topic, 0, messages, told)
    consumer.commit(offsets=[offset], asynchronous=False)
    consumer.close()


def memory(held: int = 100_000) -> Measure:
    """What the machine keeps of so many messages that wait, by Python's own account."""
    name = TaskName("orders", 0)
    locks = [
        (at, name.id_of(at), LockRecord(False, 1, LATER_MS + at, at, b"key-%08d" % at).encode())
        for at in range(held)
    ]
    retries = [(at, name.id_of(at), b"") for at in range(held)]
    starting = StartUp(name, Settings(), Random(1), 1)
    starting.begin()
    starting.handle(Committed(held, None))
    starting.handle(Ends(held, held))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    starting.handle(LocksRead(locks, held))
    (effect,) = starting.handle(RetriesRead(retries, held))
    assert isinstance(effect, Started)
    task = effect.task
    del starting, effect, locks, retries
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(task.pending) == held
    return Measure(held, 0.0, 1.0, peak=after - before)
