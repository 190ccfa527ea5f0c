"""How long from nothing to the first record that a broker has acknowledged?

    python -m benchmarks.first_record 3     seconds, of three brokers in this very process

A topic is made and one record produced with acks=all, by librdkafka. As a program of its own it
starts the embedded cluster in a process that has imported everything and has done nothing yet, as a
test does; the broker must not have loaded numba for that.
"""

from __future__ import annotations

import sys
from time import perf_counter

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

TIMEOUT_S = 60.0


def first_record(bootstrap: str, brokers: int) -> None:
    """Returns when the record is acknowledged by every broker."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic("first", 1, replication_factor=brokers)
    admin.create_topics([new])["first"].result(TIMEOUT_S)
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    producer.produce("first", b"a record", on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    if errors != [None]:
        raise KafkaException(*errors)


def main(brokers: int) -> None:
    from sexton.testing.embedded import EmbeddedCluster

    began = perf_counter()
    with EmbeddedCluster(brokers) as kafka:
        first_record(kafka.bootstrap_servers, brokers)
        taken = perf_counter() - began
    assert "numba" not in sys.modules, "the broker's path has loaded numba"
    print(taken)


if __name__ == "__main__":
    main(int(sys.argv[1]))
