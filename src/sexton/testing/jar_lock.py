"""Which jars, exactly?

Kafka's own pom names its dependencies; what Maven makes of it may change under us. So the answer of
one day is kept in a lock file, shipped with the package, and every jar must hash to what it says:

    sha256  file.jar  group:artifact:version

Maven repositories never change a published file, so a different hash is a damaged download or
somebody's meddling, and both are refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from sexton.base.errors import ConfigError

_LINE = re.compile(r"([0-9a-f]{64})  ([^\s/]+\.jar)  ([^\s:]+):([^\s:]+):([^\s:]+)")


@dataclass(frozen=True, slots=True, order=True)
class LockedJar:
    group: str
    artifact: str
    version: str
    file: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.sha256}  {self.file}  {self.group}:{self.artifact}:{self.version}"


def shipped_lock(kafka_version: str) -> list[LockedJar] | None:
    """The lock this package ships for a Kafka version, or None when it ships none."""
    resource = resources.files(__package__) / f"kafka-{kafka_version}.lock"
    if not resource.is_file():
        return None
    return parse_lock(resource.read_text(encoding="utf-8"), resource.name)


def shipped_versions() -> list[str]:
    """Every Kafka version this package has a lock for."""
    names = (entry.name for entry in resources.files(__package__).iterdir())
    return sorted(n[len("kafka-") : -len(".lock")] for n in names if n.endswith(".lock"))


def parse_lock(text: str, name: str) -> list[LockedJar]:
    """The jars a lock file lists; `#` starts a comment line."""
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            why = f"line {number} is not `sha256  file.jar  group:artifact:version`: {line!r}"
            raise ConfigError(name, why, "rewrite the lock with tools/lock_kafka_jars.py")
        sha256, file, group, artifact, version = match.groups()
        jars.append(LockedJar(group, artifact, version, file, sha256))
    return jars


def render_lock(kafka_version: str, jars: Iterable[LockedJar]) -> str:
    head = f"# The jars of Apache Kafka {kafka_version}; written by tools/lock_kafka_jars.py.\n"
    return head + "".join(f"{jar}\n" for jar in sorted(jars))


def complaint(directory: Path, jars: Iterable[LockedJar]) -> str | None:
    """Why the files in `directory` are not exactly the locked ones, or None when they are."""
    wanted = {jar.file: jar.sha256 for jar in jars}
    present = {path.name for path in directory.glob("*.jar")}
    for file in sorted(wanted):
        if file not in present:
            return f"{file} is not there"
        actual = sha256_of(directory / file)
        if actual != wanted[file]:
            return f"{file} has SHA-256 {actual}, but the lock says {wanted[file]}"
    strangers = sorted(present - wanted.keys())
    return f"{strangers[0]} is not in the lock" if strangers else None


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
