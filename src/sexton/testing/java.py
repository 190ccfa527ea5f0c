"""Which Java runs Kafka here, and with which flags.

The one that `base.java` finds, if it is new enough. A node of a test lives for seconds, so by
default the JVM is told to start fast (one cheap compiler, one garbage-collector thread); a
benchmark wants the JVM as operators run it, and asks for `STEADY`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sexton.base.errors import Missing
from sexton.base.java import JAVA_REMEDY, LEAST_JAVA, java_path

FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
STEADY = ("-server", "-XX:+UseG1GC", "-Xshare:auto")  # as kafka-run-class.sh starts a broker


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that is new enough for Kafka."""

    path: Path
    version: str  # such as "17.0.15"

    def command(
        self, classpath: str, main: str, arguments: Sequence[str], flags: Sequence[str] = FAST_START
    ) -> list[str]:
        return [str(self.path), *flags, "-cp", classpath, main, *arguments]


def find_java() -> Java:
    """The Java to use; `Missing` when there is none or it is too old."""
    return _examined(java_path(os.environ.get("JAVA_HOME")))


@cache
def _examined(path: Path) -> Java:
    answer = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    version = parse_version(answer.stderr)
    if answer.returncode != 0 or version is None:
        raise Missing("Java", f"{path} -version answered {answer.stderr.strip()!r}", JAVA_REMEDY)
    if major(version) < LEAST_JAVA:
        raise Missing("Java", f"{path} is Java {version}, which cannot run Kafka 4", JAVA_REMEDY)
    return Java(path, version)


def parse_version(text: str) -> str | None:
    """The version in what `java -version` printed: `openjdk version "17.0.15" 2025-04-15`."""
    match = re.search(r'version "([^"]+)"', text)
    return match[1] if match else None


def major(version: str) -> int:
    """17 for "17.0.15", 8 for "1.8.0_402" (Java changed its numbering after 8)."""
    numbers = [int(n) for n in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
