"""The lock names every jar by hash, and nothing else is let in."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.testing.jar_lock import (
    LockedJar,
    complaint,
    parse_lock,
    render_lock,
    shipped_lock,
    shipped_versions,
)
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4

JAR = LockedJar("org.example", "tool", "1.0", "tool-1.0.jar", hashlib.sha256(b"tool").hexdigest())
LIB = LockedJar("org.example", "lib", "2.0", "lib-2.0.jar", hashlib.sha256(b"lib").hexdigest())


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / JAR.file).write_bytes(b"tool")
    (tmp_path / LIB.file).write_bytes(b"lib")
    return tmp_path


def test_a_lock_reads_back_as_it_was_written() -> None:
    text = render_lock("9.9.9", [JAR, LIB])
    assert parse_lock(text, "kafka-9.9.9.lock") == [LIB, JAR]
    assert text.splitlines()[0].startswith("# The jars of Apache Kafka 9.9.9")


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        f"{JAR.sha256[:-1]}  tool-1.0.jar  org.example:tool:1.0",
        f"{JAR.sha256}  ../tool-1.0.jar  org.example:tool:1.0",
        f"{JAR.sha256}  tool-1.0.jar  org.example:tool",
    ],
)
def test_a_damaged_lock_is_refused_by_line(line: str) -> None:
    with pytest.raises(ConfigError, match="line 2 is not") as raised:
        parse_lock(f"# head\n{line}\n", "kafka-9.9.9.lock")
    assert raised.value.subject == "kafka-9.9.9.lock"


def test_the_locked_jars_are_accepted(jars: Path) -> None:
    assert complaint(jars, [JAR, LIB]) is None


def test_a_changed_jar_is_named_with_both_hashes(jars: Path) -> None:
    (jars / JAR.file).write_bytes(b"something else")
    why = complaint(jars, [JAR, LIB])
    assert why is not None
    assert JAR.file in why
    assert JAR.sha256 in why
    assert hashlib.sha256(b"something else").hexdigest() in why


def test_a_missing_jar_and_a_stranger_are_named(jars: Path) -> None:
    assert complaint(jars, [JAR]) == f"{LIB.file} is not in the lock"
    (jars / LIB.file).unlink()
    assert complaint(jars, [JAR, LIB]) == f"{LIB.file} is not there"


@pytest.mark.parametrize("version", [KAFKA_4, KAFKA_3_9])
def test_the_versions_we_test_with_are_locked(version: str) -> None:
    assert version in shipped_versions()
    lock = shipped_lock(version)
    assert lock is not None
    locked = {(jar.artifact, jar.version) for jar in lock}
    assert {("kafka_2.13", version), ("kafka-tools", version), ("kafka-clients", version)} <= locked


def test_an_unknown_version_has_no_lock() -> None:
    assert shipped_lock("0.0.1") is None
