"""Start a JVM twice as fast: keep the classes that Kafka loads in an archive (AppCDS).

Most of a broker's start is reading and checking some 6000 classes. A JVM can write down what it
loaded as it exits, and a later one maps that file instead. The first use of a Kafka version trains
one: it runs a broker for a moment. Nothing can go wrong with an archive but slowness: a JVM that
finds it made by another Java, or for other jars, ignores it. So it lies beside the jars in the
cache, goes when they go, and a Java that cannot make one leaves an empty file and starts as ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from sexton.testing.java import Java
from sexton.testing.kafka_jars import KafkaJars, one_at_a_time

# A JVM complains of an archive on stdout, which belongs to the tool that it runs.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")

Train = Callable[[list[str]], None]  # run a broker with these flags and shut it down cleanly


def archive_path(jars: KafkaJars, java: Java) -> Path:
    return jars.directory / f"java-{java.version}.jsa"


def archive_flags(jars: KafkaJars, java: Java) -> list[str]:
    """The flags that use the archive, or none when it is not there."""
    path = archive_path(jars, java)
    if not path.exists() or path.stat().st_size == 0:
        return []
    return [f"-XX:SharedArchiveFile={path}", *_QUIET]


def ensure_archive(jars: KafkaJars, java: Java, train: Train) -> None:
    """Have an archive made if there is none; one process trains, the others wait for it."""
    path = archive_path(jars, java)
    if path.exists():
        return
    with one_at_a_time(path.with_suffix(".training")):
        if path.exists():
            return
        sys.stderr.write(f"sexton: making Apache Kafka {jars.version} start faster from now on\n")
        scratch = path.with_suffix(".new")
        scratch.unlink(missing_ok=True)
        train([f"-XX:ArchiveClassesAtExit={scratch}", *_QUIET])
        if not scratch.exists():
            scratch.touch()
        scratch.rename(path)
