"""`sexton log clean`, as a person would use it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sexton.broker.home import Home
from tests.conftest import RunSexton
from tests.kafka_data import kafka_logs

BEFORE = next(log for log in kafka_logs("cleaned-txn.before") if log.version.startswith("4"))
SEVERAL = next(log for log in kafka_logs("txn-segments") if log.version.startswith("4"))


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BEFORE.directory, tmp_path / "orders-0"))


def _bytes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_dry_run_tells_what_would_go_and_changes_nothing(
    partition: Path, run_sexton: RunSexton
) -> None:
    before = _bytes(partition)
    result = run_sexton("log", "clean", "--dry-run", str(partition), "--format", "json")
    assert result.code == 0
    row = result.json["partitions"][0]
    assert (row["superseded"], row["aborted"], row["markers"]) == (3, 4, 0)
    assert row["kept_bytes"] < row["read_bytes"]
    assert _bytes(partition) == before


def test_it_does_what_the_dry_run_said_and_the_log_is_sound(
    partition: Path, run_sexton: RunSexton
) -> None:
    said = run_sexton("log", "clean", "--dry-run", str(partition), "--format", "json").json
    done = run_sexton("log", "clean", str(partition), "--format", "json").json
    assert done["partitions"] == said["partitions"]
    assert run_sexton("log", "verify", str(partition)).code == 0
    again = run_sexton("log", "clean", "--dry-run", str(partition), "--format", "json").json
    assert again["partitions"][0]["superseded"] == 0


def test_a_damaged_segment_is_left_alone_and_named(partition: Path, run_sexton: RunSexton) -> None:
    segment = min(partition.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    result = run_sexton("log", "clean", str(partition))
    assert result.code == 3
    assert "checksum" in result.stderr
    assert segment.read_bytes() == data


def test_damage_in_the_last_segment_takes_nothing_with_it(
    tmp_path: Path, run_sexton: RunSexton
) -> None:
    partition = Path(shutil.copytree(SEVERAL.directory, tmp_path / "orders-0"))
    segment = max(partition.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[70] ^= 1  # in the first of its four batches
    segment.write_bytes(data)
    before = _bytes(partition)
    for rehearsal in (("--dry-run",), ()):
        result = run_sexton("log", "clean", *rehearsal, str(partition), "--format", "json")
        assert result.code == 3
        assert f"checksum does not match: {len(data)} bytes would be cut" in result.stderr
        assert result.json["partitions"] == result.json["findings"] == []
        assert "put right" not in result.stdout
    assert _bytes(partition) == before


def test_a_rehearsal_does_not_say_that_something_was_put_right(
    partition: Path, run_sexton: RunSexton
) -> None:
    epochs = partition / "leader-epoch-checkpoint"
    epochs.write_text("nonsense")
    said = run_sexton("log", "clean", "--dry-run", str(partition), "--format", "json").json
    (would,) = said["findings"]
    assert would["code"] == "epochs-lost"
    assert would["remedy"] == "nothing: it is put right when the log is cleaned"
    assert epochs.read_text() == "nonsense"
    (done,) = run_sexton("log", "clean", str(partition), "--format", "json").json["findings"]
    assert done["remedy"] == "nothing: the log was put right when it was opened"


def test_a_path_that_is_no_partition_is_wrong_usage(tmp_path: Path, run_sexton: RunSexton) -> None:
    assert run_sexton("log", "clean", str(tmp_path / "nowhere-0")).code == 2
    empty = tmp_path / "empty-0"
    empty.mkdir()
    result = run_sexton("log", "clean", str(empty))
    assert result.code == 2
    assert "holds no segments" in result.stderr


def test_a_directory_that_a_broker_holds_is_refused(partition: Path, run_sexton: RunSexton) -> None:
    lock = partition.parent / ".lock"
    lock.touch()
    before = _bytes(partition)
    hold = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+b'); fcntl.lockf(file, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"held\n"
        refused = run_sexton("log", "clean", str(partition))
        rehearsed = run_sexton("log", "clean", "--dry-run", str(partition))
        broker.communicate()
    assert refused.code == 2
    assert "running broker" in refused.stderr
    assert rehearsed.code == 0
    assert _bytes(partition) == before
    assert run_sexton("log", "clean", str(partition)).code == 0


def test_the_data_of_a_running_sexton_up_is_refused(tmp_path: Path, run_sexton: RunSexton) -> None:
    partition = Path(shutil.copytree(BEFORE.directory, tmp_path / "broker-1" / "orders-0"))
    before = _bytes(partition)
    home = Home(tmp_path)
    home.take()
    refused = run_sexton("log", "clean", str(partition))
    assert refused.code == 2
    assert f"{tmp_path}: is in use by a running broker" in refused.stderr
    assert _bytes(partition) == before
    home.leave()
    assert run_sexton("log", "clean", str(partition)).code == 0


def test_a_log_of_which_nothing_may_be_cleaned_says_why(
    tmp_path: Path, partition: Path, run_sexton: RunSexton
) -> None:
    last = max(partition.glob("*.log"))
    alone = tmp_path / "alone-0"
    alone.mkdir()
    shutil.copy(last, alone)
    result = run_sexton("log", "clean", "--dry-run", partition, alone)
    assert result.code == 0
    why = "nothing may be cleaned: it is all in the last segment, or after an open transaction"
    assert f"\nalone-0: {why}, or above the high watermark\n" in result.stdout
    assert "orders-0: nothing may be" not in result.stdout
