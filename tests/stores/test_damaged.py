"""Files of a store that are not what was written: rebuilt, whenever that is found.

And the other way round: a disk that is full or a process with too many files says nothing against a
store, so that one stays.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError, SextonError
from sexton.stores import App, Output, Store, Task
from sexton.stores.disks import DamagedStore, DiskTrouble, RocksDisk, _in_words, remove
from sexton.stores.verifying import places_in
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import INPUT, SINK, app, count
from tests.stores.harness import (
    make_topics,
    regressions,
    state,
    sums,
    wait_until_active,
    wait_until_done,
    write,
)
from tests.stores.test_commands import sexton

KEYS = 2_000  # of 8 bytes and more: many blocks of 4 KiB


def damage(path: Path, part: float) -> None:
    """Some bits of a table, so far from its beginning: 0 is where the checkpoint is."""
    [table] = path.glob("*.sst")
    data = bytearray(table.read_bytes())
    start = int(len(data) * part)
    for place in range(start, start + 64):
        data[place] ^= 0xFF
    table.write_bytes(data)


def counted(servers: str, home: Path) -> Path:
    """Everything once, and closed, so that it is in a table."""
    write(servers, [(0, f"key_{number:06}") for number in range(KEYS)])
    with app(servers, home) as first:
        wait_until_done(first, KEYS)
    return home / "counter" / "counts-0"


def thrown_away(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why, as the text of the line says it: few formats show what is beside that."""
    begins = "counts-0: local state is thrown away: "
    return [line.removeprefix(begins) for line in caplog.messages if line.startswith(begins)]


def test_a_damaged_table_that_is_met_at_the_start(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In a directory whose name is in none of RocksDB's words, though it looks like it."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    damage(counted(servers, tmp_path / "clock"), 0)
    with app(servers, tmp_path / "clock") as again:
        wait_until_active(again, 1)
        assert len(state(again, 0)) == KEYS
    [why] = thrown_away(caplog)
    assert "block checksum mismatch" in why


def test_a_damaged_table_that_process_meets(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    damage(counted(servers, tmp_path / "a"), 0.5)
    with app(servers, tmp_path / "a") as again:
        wait_until_active(again, 1)
        assert thrown_away(caplog) == []  # nobody has looked there yet
        write(servers, [(0, f"key_{number:06}") for number in range(KEYS)])
        wait_until_done(again, 2 * KEYS)
        assert set(state(again, 0).values()) == {2}
    [why] = thrown_away(caplog)
    assert "block checksum mismatch" in why
    assert regressions(sums(servers, 0)) == []
    assert len(sums(servers, 0)) == 2 * KEYS


def test_nobody_can_go_on_with_what_cannot_be_read(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """`process` catches everything, and takes a key that it cannot read for a new one."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    damage(counted(servers, tmp_path / "a"), 0.5)
    met = []

    def careless(key: str, value: bytes, store: Store) -> Iterable[Output]:
        try:
            return count(key, value, store)
        except Exception as error:  # noqa: BLE001 - as one should not
            met.append(error)
            store.put(key, 1)
            return [Output(key, 1, SINK, store.partition)]

    names = ("str", "bytes"), ("str", "int"), ("str", "int64")
    task = Task("counts", INPUT, careless, SINK, *names)
    options = {"heartbeat_interval_ms": 200, "bootstrap_servers": servers}
    write(servers, [(0, f"key_{number:06}") for number in range(KEYS)])
    with App("counter", [task], state_dir=tmp_path / "a", **options) as again:  # type: ignore[arg-type]
        wait_until_done(again, 2 * KEYS)
        assert set(state(again, 0).values()) == {2}
    assert met != []
    assert regressions(sums(servers, 0)) == []


def test_a_query_is_not_told_that_there_is_nothing(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A view holds on to the files that go; it is told so, and the next one is right."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    damage(counted(servers, tmp_path / "a"), 0.5)
    with app(servers, tmp_path / "a") as again:
        wait_until_active(again, 1)
        view = again.query("counts", 0)
        with pytest.raises(DamagedStore):
            all(view.get(f"key_{number:06}") == 1 for number in range(KEYS))
        with pytest.raises(DamagedStore):
            list(view.scan())
        until(lambda: thrown_away(caplog) != [], "it is thrown away")
        wait_until_active(again, 1)
        assert set(state(again, 0).values()) == {1}
        with pytest.raises(DiskTrouble, match="is rebuilt"):
            view.get("key_000000")


def test_a_damaged_copy_is_rebuilt_as_a_copy(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    path = counted(servers, tmp_path / "b")
    with app(servers, tmp_path / "a") as first:
        wait_until_active(first, 1)
        damage(path, 0.5)
        with app(servers, tmp_path / "b") as second:

            def copied() -> bool:
                return [(s.role, s.input_position) for s in second.status()] == [("standby", KEYS)]

            until(copied, "the second has its copy")
            with pytest.raises(DamagedStore):
                list(second.query("counts", 0).scan())
            write(servers, [(0, "key_000000")])
            until(lambda: thrown_away(caplog) != [], "it is thrown away")

            def whole() -> bool:
                return sum(state(second, 0).values()) == KEYS + 1

            until(whole, "the copy is whole again")
            assert second.status()[0].role == "standby"


def test_a_damaged_store_under_verify_is_said_to_be_one(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    damage(counted(servers, tmp_path / "a"), 0.5)
    code, told = sexton("verify", tmp_path / "a", "-b", servers)
    assert code == 3
    assert "block checksum mismatch" in told["incomplete"][0]["why"]


# ── what says nothing against a store ──


# In a process of its own: others have threads that open files, too.
WITH_FEW_FILES = """
import os, resource, sys
from pathlib import Path
from sexton.stores.disks import DiskTrouble, RocksDisk

path, more = Path(sys.argv[1]), int(sys.argv[2])
RocksDisk(path.with_name("another")).close()  # imports what it needs
before = resource.getrlimit(resource.RLIMIT_NOFILE)
taken = {int(name) for name in os.listdir("/proc/self/fd")}
while (last := os.dup(0)) < max(taken):
    pass  # numbers are given from below: now none is free below the last
resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1 + more, before[1]))
try:
    RocksDisk(path)
except DiskTrouble as error:
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert error.subject == str(path) and error.hint, error
    print(error)
"""


@pytest.mark.parametrize("more", range(5))
def test_too_many_open_files_cost_no_store(tmp_path: Path, more: int) -> None:
    path = tmp_path / "t-0"
    disk = RocksDisk(path)
    disk.write({b"\x01a": b"1"})
    disk.close()
    command = [sys.executable, "-c", WITH_FEW_FILES, str(path), str(more)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Too many open files" in answer.stdout
    disk = RocksDisk(path)
    assert disk.get(b"\x01a") == b"1"
    disk.close()


def test_a_place_where_no_store_can_be_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(DiskTrouble, match="Not a directory"):
        RocksDisk(tmp_path / "state" / "t-0")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (
            "Corruption: block checksum mismatch: stored = 1, computed = 2  in {}/9.sst",
            DamagedStore,
        ),
        ("Corruption: Bad table magic number: expected 1, found 0 in {}/000009.sst", DamagedStore),
        (
            "IO error: No such file or directory: While opening a file: {}/MANIFEST-000013",
            DamagedStore,
        ),
        ("Corruption: IO error: While open a file: {}/9.sst: Too many open files", DiskTrouble),
        ("IO error: No space left on device: While appending to file: {}/12.log", DiskTrouble),
        ("IO error: While open a file for lock: {}/LOCK: Permission denied", DiskTrouble),
        ("IO error: while open a file for lock: {}/LOCK: Too many open files", DiskTrouble),
        ("IO error: While lock file: {}/LOCK: Resource temporarily unavailable", ConfigError),
        ("Not implemented: a format of the future", DiskTrouble),
    ],
)
def test_what_rocksdb_says(said: str, kind: type[SextonError]) -> None:
    path = Path("/data/blocks/clock/t-0")
    assert isinstance(_in_words(path, said.format(path)), kind)


def test_a_store_is_thrown_away_whole_or_not_at_all(tmp_path: Path) -> None:
    """One that was cut short by a crash is no store to anybody, and goes with the next."""
    path = tmp_path / "counter" / "t-0"
    RocksDisk(path).close()
    left = tmp_path / "counter" / "t-0.damaged"
    left.mkdir()
    (left / "000012.log").write_bytes(b"what was not flushed")
    assert [place.path for place in places_in(tmp_path)] == [path]
    [manifest] = path.glob("MANIFEST-*")
    manifest.write_bytes(b"nonsense")
    with pytest.raises(DamagedStore):
        RocksDisk(path)
    remove(path)
    assert list((tmp_path / "counter").iterdir()) == []
