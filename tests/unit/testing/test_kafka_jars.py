"""The jars come from Maven once, whole and checked; what is missing is named."""

from __future__ import annotations

import hashlib
import shutil
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError, Missing, PeerError
from sexton.testing import java, kafka_jars
from sexton.testing.jar_lock import LockedJar

Install = Callable[..., None]

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
# A stand-in for Maven: it writes one jar where it is told to, and leaves a mark for each run.
MAVEN = """
for a in "$@"; do case "$a" in -DoutputDirectory=*) out="${a#*=}";; esac; done
mkdir -p "$out"; printf tool > "$out/tool-1.0.jar"; echo run >> "$(dirname "$0")/runs"
"""
LOCK = [
    LockedJar("org.example", "tool", "1.0", "tool-1.0.jar", hashlib.sha256(b"tool").hexdigest())
]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A PATH with only the shell's own programs and what a test installs, and an empty cache."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("sh", "mkdir", "dirname"):
        (directory / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("SEXTON_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(kafka_jars, "shipped_lock", lambda v: LOCK if v == "1.0" else None)
    kafka_jars.kafka_jars.cache_clear()

    def install(**scripts: str) -> None:
        for name, script in scripts.items():
            program = directory / name
            program.write_text(f"#!{directory}/sh\n{script}\n", encoding="utf-8")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)

    return install


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "bin" / "runs").read_text(encoding="utf-8").splitlines())


def test_the_jars_are_fetched_once(programs: Install, tmp_path: Path) -> None:
    programs(java=JAVA_17, mvn=MAVEN)
    found = kafka_jars.kafka_jars("1.0")
    assert found.directory == tmp_path / "cache" / "kafka" / "1.0"
    assert found.classpath == str(found.directory / "tool-1.0.jar")
    kafka_jars.kafka_jars.cache_clear()
    assert kafka_jars.kafka_jars("1.0") == found
    assert runs(tmp_path) == 1


def test_a_damaged_cache_is_fetched_again(programs: Install, tmp_path: Path) -> None:
    programs(java=JAVA_17, mvn=MAVEN)
    jar = kafka_jars.kafka_jars("1.0").directory / "tool-1.0.jar"
    jar.write_bytes(b"damaged")
    kafka_jars.kafka_jars.cache_clear()
    kafka_jars.kafka_jars("1.0")
    assert jar.read_bytes() == b"tool"
    assert runs(tmp_path) == 2


def test_a_jar_with_another_hash_is_refused_and_not_kept(programs: Install, tmp_path: Path) -> None:
    programs(java=JAVA_17, mvn=MAVEN.replace("printf tool", "printf tampered"))
    with pytest.raises(PeerError, match=r"tool-1\.0\.jar has SHA-256"):
        kafka_jars.kafka_jars("1.0")
    assert not (tmp_path / "cache" / "kafka" / "1.0").exists()


def test_a_version_without_a_lock_must_be_asked_for(programs: Install) -> None:
    programs(java=JAVA_17, mvn=MAVEN)
    with pytest.raises(ConfigError, match="no lock") as raised:
        kafka_jars.kafka_jars("2.0")
    assert raised.value.hint is not None
    assert "unlocked" in raised.value.hint
    assert kafka_jars.kafka_jars("2.0", unlocked=True).version == "2.0"


def test_a_missing_java_is_named(programs: Install) -> None:
    programs(mvn=MAVEN)
    with pytest.raises(
        Missing, match="Java: is not installed: there is no `java` on the PATH"
    ) as raised:
        kafka_jars.kafka_jars("1.0")
    assert raised.value.hint is not None
    assert "Java 17" in raised.value.hint


def test_a_missing_maven_is_named(programs: Install) -> None:
    programs(java=JAVA_17)
    with pytest.raises(Missing, match="Maven: is not installed: there is no `mvn` on the PATH"):
        kafka_jars.kafka_jars("1.0")


def test_an_old_java_is_refused_by_version(programs: Install) -> None:
    programs(java="echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    with pytest.raises(Missing, match=r"is Java 11\.0\.2"):
        java.find_java()


def test_a_java_home_without_java_is_named(
    programs: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(java=JAVA_17)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(Missing, match="Java: JAVA_HOME is /nowhere, where there is no bin/java"):
        java.find_java()


def test_what_maven_complains_of_is_passed_on(programs: Install) -> None:
    programs(java=JAVA_17, mvn="echo '[ERROR] no route to the repository'; exit 1")
    with pytest.raises(PeerError, match="no route to the repository"):
        kafka_jars.kafka_jars("1.0")


@pytest.mark.parametrize(
    ("version", "number"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25)]
)
def test_javas_two_ways_to_count(version: str, number: int) -> None:
    assert java.major(version) == number


@pytest.mark.parametrize(
    "complaint",
    [
        "Could not find artifact org.apache.kafka:kafka_2.13:jar:9.9.9 in central (https://x)",
        "org.apache.kafka:kafka_2.13:jar:9.9.9 was not found in https://x during a previous one",
    ],
)
def test_a_version_that_there_is_not_is_named_and_leaves_nothing(
    programs: Install, tmp_path: Path, complaint: str
) -> None:
    programs(java=JAVA_17, mvn=f"printf '\\033[0m[ERROR] Failed: {complaint}\\n'; exit 1")
    with pytest.raises(PeerError) as raised:
        kafka_jars.kafka_jars("9.9.9", unlocked=True)
    assert (raised.value.subject, raised.value.why) == ("Maven", "has no Apache Kafka 9.9.9")
    assert not list((tmp_path / "cache" / "kafka").iterdir())


def test_other_complaints_of_maven_come_without_colours(programs: Install) -> None:
    programs(java=JAVA_17, mvn="printf '\\033[0m[\\033[1;31mERROR\\033[m] no route\\n'; exit 1")
    with pytest.raises(PeerError) as raised:
        kafka_jars.kafka_jars("1.0")
    assert (raised.value.subject, raised.value.why) == ("mvn", "[ERROR] no route")


def test_those_who_queue_at_a_file_that_is_removed_queue_again(tmp_path: Path) -> None:
    """Else two could be at it at once: one at the old file, one at a new one of the same name."""
    path = tmp_path / "1.0.fetching"
    inside: list[int] = []
    together: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            with kafka_jars.one_at_a_time(path):
                inside.append(number)
                (tmp_path / "work").write_text("takes a moment")  # in which others may run
                together.append(len(inside))
                inside.pop()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert together == [1] * 200
    assert not path.exists()
