"""Kafka's own code, run the way an operator runs it.

The harness starts a JVM for a quick start, with the cheap compiler only; measured like that, Java
would look slower than it is. Here it has both compilers, the collector and the heap of
`kafka-run-class.sh`, and single-file programs (`java/*.java`) that call into Kafka's jars.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sexton.testing.java import STEADY, find_java
from sexton.testing.kafka_jars import kafka_jars

SOURCES = Path(__file__).parent / "java"
TOOL_HEAP = "256m"  # what kafka-run-class.sh gives a tool
OWN_HEAP = "2g"  # for our own programs, which hold a slice of a log in memory


def tool(main: str, arguments: Sequence[str], heap: str = TOOL_HEAP) -> list[str]:
    """The command that runs a class of Kafka's jars."""
    flags = [*STEADY, f"-Xmx{heap}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    return find_java().command(kafka_jars().classpath, main, arguments, flags)


def program(name: str, arguments: Sequence[str]) -> list[str]:
    """The command that compiles and runs one of our own programs against Kafka's jars."""
    return tool(str(SOURCES / f"{name}.java"), arguments, OWN_HEAP)
