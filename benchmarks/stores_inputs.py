"""Topics to count: as many records as are wanted, over as many keys."""

from __future__ import annotations

from confluent_kafka import Producer

VALUE_BYTES = 1_000


def fill(bootstrap: str, topic: str, records: int, keys: int, value_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 900_000})
    value = (bytes(range(250)) * (value_bytes // 250 + 1))[:value_bytes]
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, b"key_%09d" % (number % keys))
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush() == 0
