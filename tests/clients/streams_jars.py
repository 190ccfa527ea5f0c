"""Kafka Streams, which is not among the jars that run a broker: one jar more (`streams.lock`).

Its state stores are kept in memory here, so that RocksDB's 70 MB need not be fetched.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from sexton.testing.jar_lock import parse_lock
from sexton.testing.kafka_jars import KAFKA_4, KafkaJars, kafka_jars, locked_jars

LOCK = Path(__file__).with_name("streams.lock")


class StreamsJars(KafkaJars):
    """A broker's jars and, behind them, those of Kafka Streams."""

    @property
    def classpath(self) -> str:
        # Behind, so that the archive of classes holds for the front of the class path.
        return os.pathsep.join((super().classpath, *map(str, sorted(_fetched().glob("*.jar")))))


def streams_jars() -> KafkaJars:
    broker = kafka_jars(KAFKA_4)
    return StreamsJars(broker.version, broker.directory)


@cache
def _fetched() -> Path:
    lock = parse_lock(LOCK.read_text(encoding="utf-8"), LOCK.name)
    return locked_jars(f"streams-{KAFKA_4}", f"Kafka Streams {KAFKA_4}", lock)
