"""Kafka Streams, which is not among the jars that run a broker: one jar more (`streams.lock`).

Its state stores are kept in memory here, so that RocksDB's 70 MB need not be fetched.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from sexton.testing.jar_lock import complaint, parse_lock
from sexton.testing.kafka_jars import (
    KAFKA_4,
    KafkaJars,
    cache_directory,
    kafka_jars,
    locked_pom,
    one_at_a_time,
    run_maven,
)

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
    target = cache_directory() / "kafka" / f"streams-{KAFKA_4}"
    with one_at_a_time(target.with_name(f"{target.name}.fetching")):
        if target.is_dir() and complaint(target, lock) is None:
            return target
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            jars = Path(scratch, "jars")
            run_maven(locked_pom(lock), jars)
            assert (why := complaint(jars, lock)) is None, why
            if target.exists():
                shutil.rmtree(target)
            jars.rename(target)
    return target
