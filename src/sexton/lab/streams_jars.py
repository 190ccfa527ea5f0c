"""The jars of an old Kafka Streams with RocksDB, from Maven, once, checked against a lock.

    ~/.cache/sexton/kafka/streams-rocksdb-3.5.1/*.jar

They are for a program that runs beside a broker, so nothing of a broker is among them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

from sexton.base.errors import PeerError
from sexton.testing.jar_lock import complaint, parse_lock
from sexton.testing.kafka_jars import (
    KafkaJars,
    cache_directory,
    locked_pom,
    one_at_a_time,
    run_maven,
)


@cache
def streams_jars(version: str) -> KafkaJars:
    """70 MB, fetched at the first use."""
    resource = resources.files(__package__) / f"streams-{version}.lock"
    lock = parse_lock(resource.read_text(encoding="utf-8"), resource.name)
    target = cache_directory() / "kafka" / f"streams-rocksdb-{version}"
    with one_at_a_time(target.with_name(f"{target.name}.fetching")):
        if not target.is_dir() or complaint(target, lock) is not None:
            sys.stderr.write(f"sexton: fetching Kafka Streams {version} with Maven\n")
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                jars = Path(scratch, "jars")
                run_maven(locked_pom(lock), jars)
                if why := complaint(jars, lock):
                    hint = "remove that jar from Maven's local repository and try again"
                    raise PeerError(f"Kafka Streams {version} from Maven", why, hint)
                if target.exists():
                    shutil.rmtree(target)
                jars.rename(target)
    return KafkaJars(version, target)
