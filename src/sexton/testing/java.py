"""Which Java runs Kafka here, and with which flags.

Kafka 4 needs Java 17. `JAVA_HOME` wins over the `PATH`, as it does for Kafka's own scripts. A node
of a test lives for seconds, so by default the JVM is told to start fast (one cheap compiler, one
garbage-collector thread); a benchmark wants the JVM as operators run it, and asks for `STEADY`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sexton.base.errors import Missing

OLDEST_JAVA = 17

FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
STEADY = ("-server", "-XX:+UseG1GC", "-Xshare:auto")  # as kafka-run-class.sh starts a broker

_INSTALL = f"install a Java {OLDEST_JAVA} or newer runtime, or point JAVA_HOME at one"


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
    home = os.environ.get("JAVA_HOME")
    candidate = str(Path(home, "bin", "java")) if home else "java"
    found = shutil.which(candidate)
    if found is None:
        why = f"JAVA_HOME={home} holds no bin/java" if home else "no `java` on the PATH"
        raise Missing("java", why, _INSTALL)
    return _examined(Path(found))


@cache
def _examined(path: Path) -> Java:
    answer = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    version = parse_version(answer.stderr)
    if answer.returncode != 0 or version is None:
        raise Missing("java", f"{path} -version answered {answer.stderr.strip()!r}", _INSTALL)
    if major(version) < OLDEST_JAVA:
        raise Missing("java", f"{path} is Java {version}, which cannot run Kafka 4", _INSTALL)
    return Java(path, version)


def parse_version(text: str) -> str | None:
    """The version in what `java -version` printed: `openjdk version "17.0.15" 2025-04-15`."""
    match = re.search(r'version "([^"]+)"', text)
    return match[1] if match else None


def major(version: str) -> int:
    """17 for "17.0.15", 8 for "1.8.0_402" (Java changed its numbering after 8)."""
    numbers = [int(n) for n in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
