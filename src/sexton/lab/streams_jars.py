"""The jars of an old Kafka Streams with RocksDB: which ones, and where they are kept.

    ~/.cache/sexton/kafka/streams-rocksdb-3.5.1/*.jar

They are for a program that runs beside a broker, so nothing of a broker is among them.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from sexton.testing.jar_lock import parse_lock
from sexton.testing.kafka_jars import KafkaJars, locked_jars


@cache
def streams_jars(version: str) -> KafkaJars:
    """70 MB, fetched at the first use."""
    resource = resources.files(__package__) / f"streams-{version}.lock"
    lock = parse_lock(resource.read_text(encoding="utf-8"), resource.name)
    name = f"streams-rocksdb-{version}"
    return KafkaJars(version, locked_jars(name, f"Kafka Streams {version}", lock))
