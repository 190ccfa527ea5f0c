"""Where do the jars of an Apache Kafka come from?

From Maven, once, into a cache; Kafka's own download is three times as large and on no package
registry. The directory of a version appears in the cache in one rename, after every jar was checked
against the lock, so a cache holds a version whole or not at all:

    ~/.cache/sexton/kafka/4.3.1/*.jar       (SEXTON_CACHE names another ~/.cache/sexton)
    ~/.cache/sexton/kafka/4.3.1.fetching    locked by the one process that fetches

The hashes are checked again whenever a process first uses the jars: 45 MB take a tenth of a second,
and a cache is a place where other programs write too.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from sexton.base.errors import ConfigError, Missing, PeerError
from sexton.testing.jar_lock import (
    LockedJar,
    complaint,
    sha256_of,
    shipped_lock,
    shipped_versions,
)
from sexton.testing.java import find_java

KAFKA_4 = "4.3.1"  # the newest 4.x and 3.9.x with every module published
KAFKA_3_9 = "3.9.2"

# kafka-tools would bring Kafka Connect and with it a whole web server, which no tool here uses; and
# 3.9 brings a second logger, between which slf4j would choose by the order of the class path.
_ROOTS = (
    ("org.apache.kafka", "kafka_2.13", None),
    ("org.apache.kafka", "kafka-tools", None),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
_UNWANTED = (
    ("org.apache.kafka", "connect-runtime"),
    ("org.apache.kafka", "connect-json"),
    ("org.slf4j", "slf4j-reload4j"),
)
_EVERYTHING = (("*", "*"),)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # which Maven writes into a pipe, too
# The second is what it says when it is asked again.
_ABSENT = re.compile(r"Could not find artifact (\S+)|(\S+) was not found in ")

# One plugin version, so that every Maven since 3.6 copies the same way.
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """The jars of one Kafka version, all in one directory."""

    version: str
    directory: Path

    @property
    def classpath(self) -> str:
        # Sorted and spelled out, not `dir/*`: a class archive holds for one class path only.
        return os.pathsep.join(str(jar) for jar in sorted(self.directory.glob("*.jar")))


def cache_directory() -> Path:
    """Where downloads are kept: SEXTON_CACHE, or `sexton` in the user's cache directory."""
    if own := os.environ.get("SEXTON_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sexton")


@cache
def kafka_jars(version: str = KAFKA_4, *, unlocked: bool = False) -> KafkaJars:
    """The jars of a Kafka version, fetched if need be.

    A version without a lock is refused, unless `unlocked` says that unchecked jars will do.
    """
    lock = shipped_lock(version)
    if lock is None and not unlocked:
        known = ", ".join(shipped_versions())
        hint = f"use one of {known}, or ask for unlocked jars"
        raise ConfigError(f"Apache Kafka {version}", "there is no lock for its jars", hint)
    pom = root_pom(version) if lock is None else locked_pom(lock)
    return KafkaJars(version, _kept(version, f"Apache Kafka {version}", pom, lock))


def locked_jars(name: str, what: str, lock: list[LockedJar]) -> Path:
    """A directory with exactly these jars, fetched if need be; `what` is what people call them."""
    return _kept(name, what, locked_pom(lock), lock)


def _kept(name: str, what: str, pom: str, lock: list[LockedJar] | None) -> Path:
    target = cache_directory() / "kafka" / name
    with one_at_a_time(target.with_name(f"{name}.fetching")):
        if not target.is_dir() or _complaint(target, lock) is not None:
            _fetch_into(target, what, pom, lock)
    return target


def _complaint(directory: Path, lock: list[LockedJar] | None) -> str | None:
    """Nothing can be said against jars without a lock."""
    return None if lock is None else complaint(directory, lock)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Let one process after another do what follows; `path` is where they queue."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _first_in_line(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _first_in_line(path: Path) -> IO[str]:
    while True:
        file = path.open("w")
        fcntl.flock(file, fcntl.LOCK_EX)  # released by the kernel, however this process ends
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # its last holder has removed it; others queue at a new one by now


def _fetch_into(target: Path, what: str, pom: str, lock: list[LockedJar] | None) -> None:
    sys.stderr.write(f"sexton: fetching {what} with Maven into {target}\n")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.") as scratch:
        jars = Path(scratch, "jars")
        run_maven(pom, jars)
        if why := _complaint(jars, lock):
            hint = "remove that jar from Maven's local repository and try again"
            raise PeerError(f"{what} from Maven", why, hint)
        if target.exists():
            shutil.rmtree(target)
        jars.rename(target)
    count = sum(1 for _ in target.glob("*.jar"))
    sys.stderr.write(f"sexton: {what} is there, {count} jars\n")


def resolve(version: str) -> list[LockedJar]:
    """What Maven makes of Kafka's own poms today: the lines of a new lock."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "tree")
        # In a repository's layout the path of a jar spells its coordinates.
        run_maven(root_pom(version), tree, "-Dmdep.useRepositoryLayout=true")
        return [_coordinates(tree, jar) for jar in tree.rglob("*.jar")]


def _coordinates(tree: Path, jar: Path) -> LockedJar:
    *group, artifact, version, file = jar.relative_to(tree).parts
    return LockedJar(".".join(group), artifact, version, file, sha256_of(jar))


def root_pom(version: str) -> str:
    """Kafka, its tools and a logger, and all that they need."""
    wanted = [(group, name, own or version) for group, name, own in _ROOTS]
    return _pom(wanted, _UNWANTED)


def locked_pom(lock: Iterable[LockedJar]) -> str:
    """Exactly the jars of the lock: nothing is left for Maven to decide."""
    return _pom([(jar.group, jar.artifact, jar.version) for jar in lock], _EVERYTHING)


def _pom(wanted: Iterable[tuple[str, str, str]], unwanted: Iterable[tuple[str, str]]) -> str:
    exclusions = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for group, artifact in unwanted
    )
    dependencies = "".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><exclusions>{exclusions}</exclusions></dependency>\n"
        for group, artifact, version in wanted
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n'
        "  <modelVersion>4.0.0</modelVersion>\n"
        "  <groupId>sexton</groupId><artifactId>kafka-jars</artifactId><version>1</version>\n"
        "  <packaging>pom</packaging>\n"
        f"  <dependencies>\n{dependencies}  </dependencies>\n"
        "</project>\n"
    )


def run_maven(pom: str, output: Path, *options: str) -> None:
    """Have Maven copy the jars that `pom` asks for into `output`."""
    find_java()  # Maven's own complaint about a missing Java is harder to read than ours
    maven = find_maven()
    with tempfile.TemporaryDirectory() as scratch:
        pom_file = Path(scratch, "pom.xml")
        pom_file.write_text(pom, encoding="utf-8")
        command = [str(maven), "-q", "-B", "-f", str(pom_file), _COPY]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={output}", *options]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    if answer.returncode != 0:
        raise _failure(_COLOUR.sub("", answer.stdout), _COLOUR.sub("", answer.stderr))


def _failure(stdout: str, stderr: str) -> PeerError:
    """What Maven's complaint comes to."""
    if absent := _ABSENT.search(stdout):
        jar = absent[1] or absent[2]
        is_kafka = jar.startswith("org.apache.kafka:")
        what = f"Apache Kafka {jar.rpartition(':')[2]}" if is_kafka else jar
        return PeerError("Maven", f"has no {what}", f"name one that was released, as {KAFKA_4}")
    lines = [line for line in stdout.splitlines() if "ERROR" in line]
    why = "\n".join(lines[:3]) or stderr.strip() or "it failed and did not say why"
    return PeerError("mvn", why, "is the network there? Maven fetches Kafka's jars once")


def find_maven() -> Path:
    """Missing, with what to install, if there is none."""
    found = shutil.which("mvn")
    if found is None:
        hint = "install Maven (apt-get install maven, brew install maven): it fetches jars, once"
        raise Missing("Maven", "is not installed: there is no `mvn` on the PATH", hint)
    return Path(found)
