"""A program: librdkafka reads a topic and writes as many records, without state or transactions.

stores_plain.py BOOTSTRAP OUTPUT RECORDS DIRECTORY
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer

MOST_AT_ONCE = 10_000


def main(bootstrap: str, output: str, records: int) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": output, "auto.offset.reset": "earliest"}
    )
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    consumer.subscribe(["words"])
    counts: dict[bytes, int] = {}
    done = 0
    while done < records:
        for message in consumer.consume(MOST_AT_ONCE, 0.1):
            key = message.key()
            if message.error() or not isinstance(key, bytes):
                continue
            counts[key] = total = counts.get(key, 0) + 1
            producer.produce(output, total.to_bytes(8, "big"), key)
            done += 1
        producer.poll(0)
    producer.flush()
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
