"""Kafka's own index, snapshot and checkpoint files: read as Kafka reads them, made again by us."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from pathlib import Path

import pytest

from sexton.base.errors import CorruptLog
from sexton.base.partitions import TopicPartition
from sexton.log.checkpoints import (
    EpochStart,
    pack_epochs,
    pack_metadata,
    pack_offsets,
    parse_epochs,
    parse_metadata,
    parse_offsets,
)
from sexton.log.config import LogConfig
from sexton.log.directory import DataDirectory
from sexton.log.indexes import OffsetIndex, TimeIndex, pack_aborted, parse_aborted
from sexton.log.real_disk import RealDisk
from sexton.log.recovery import open_log
from sexton.log.snapshots import pack_snapshot, parse_snapshot
from tests.dump_text import comparable, dump_file
from tests.kafka_data import DATA, KafkaLog, data_directory, kafka_logs

NOW_MS = 2_000_000_000_000
MADE_AGAIN = {".index", ".timeindex", ".txnindex", ".snapshot"}
LOGS = kafka_logs()
VERSIONS = ["4.3.1", "3.9.2"]

every_log = pytest.mark.parametrize("log", LOGS, ids=str)


@every_log
def test_our_reading_of_indexes_and_snapshots_is_what_kafka_dump_log_prints(log: KafkaLog) -> None:
    files = [path for path in sorted(log.directory.iterdir()) if path.suffix in MADE_AGAIN]
    assert files
    for path in files:
        assert dump_file(path) == comparable(log.dumps.get(path.name, "")), path.name


@every_log
def test_what_we_read_we_would_write_the_same(log: KafkaLog) -> None:
    for path in sorted(log.directory.iterdir()):
        data = path.read_bytes()
        match path.suffix or path.name:
            case ".index":
                assert OffsetIndex.parse(data).pack() == data
            case ".timeindex":
                assert TimeIndex.parse(data).pack() == data
            case ".txnindex":
                assert b"".join(map(pack_aborted, parse_aborted(data, path.name))) == data
            case ".snapshot":
                assert pack_snapshot(parse_snapshot(data, path.name)) == data
            case "leader-epoch-checkpoint":
                assert pack_epochs(parse_epochs(data, path.name)) == data
            case ".metadata":
                assert pack_metadata(parse_metadata(data, path.name)) == data
            case other:
                assert other == ".log"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_checkpoints_of_a_data_directory_come_back_as_they_were(version: str) -> None:
    paths = sorted(data_directory(version).glob("*-offset-checkpoint"))
    assert len(paths) >= 3
    for path in paths:
        data = path.read_bytes()
        offsets = parse_offsets(data, path.name)
        # Kafka writes them in the order of a hash map; we sort.
        assert sorted(pack_offsets(offsets).splitlines()) == sorted(data.splitlines())
    points = parse_offsets((paths[0].parent / "recovery-point-offset-checkpoint").read_bytes(), "x")
    assert TopicPartition("cleaned-lz4", 0) in points


def test_a_damaged_topic_id_is_not_read_as_some_other() -> None:
    whole = pack_metadata(uuid.UUID(int=7))
    for damaged in (whole[:-1], whole[:-1] + b"*", whole + b"*", whole + b"A", b"version: 0\n"):
        with pytest.raises(CorruptLog, match="is not partition metadata"):
            parse_metadata(damaged, "partition.metadata")


# ── made again from the .log files alone ──


def recovered(directory: Path, scratch: Path) -> dict[str, bytes]:
    """Every file of a copy of a partition, after its indexes were lost and it was opened anew."""
    copy = shutil.copytree(directory, scratch / directory.name)
    for path in copy.iterdir():
        if path.suffix in MADE_AGAIN:
            path.unlink()
    opened = open_log(
        RealDisk(scratch), copy.name, LogConfig(index_interval_bytes=1), now_ms=NOW_MS
    )
    assert opened.findings == []
    opened.log.close(NOW_MS)
    return {path.name: path.read_bytes() for path in copy.iterdir()}


def explained(log: KafkaLog, name: str, theirs: bytes, ours: bytes | None) -> str | None:
    """Why a file that we made from the log alone may be another than Kafka's, or None."""
    cleaned = log.case.endswith(".after")
    if name == "leader-epoch-checkpoint" and ours is not None:
        return _epochs_explained(log, parse_epochs(theirs, name), parse_epochs(ours, name))
    if name.endswith(".txnindex") and cleaned:
        kept = parse_aborted(ours or b"", name)
        if all(entry in parse_aborted(theirs, name) for entry in kept):
            return "aborted records were cleaned away: nothing in the log tells of them any more"
    if name.endswith(".snapshot"):
        return _snapshot_explained(log, name, theirs, ours)
    if log.case == "leader-epochs" and name.endswith("index") and ours is not None:
        size = 8 if name.endswith(".index") else 12
        entries = {ours[at : at + size] for at in range(0, len(ours), size)}
        if all(theirs[at : at + size] in entries for at in range(0, len(theirs), size)):
            return "Kafka counts bytes since the last index entry from 0 again after a restart"
    return None


def _epochs_explained(
    log: KafkaLog, theirs: list[EpochStart], ours: list[EpochStart]
) -> str | None:
    end = max((int(path.stem) for path in log.directory.glob("*.snapshot")), default=0)
    written = [entry for entry in theirs if entry.start_offset < end]
    if ours == written:
        return "an epoch in which nothing was written yet is forgotten when a log is loaded"
    return None


def _snapshot_explained(log: KafkaLog, name: str, theirs: bytes, ours: bytes | None) -> str | None:
    if ours is None:
        last = max(path.name for path in log.directory.glob("*.snapshot"))
        return "a snapshot inside the log only saves time" if name != last else None
    expected, made = parse_snapshot(theirs, name), parse_snapshot(ours, name)
    if sorted(made) == sorted(expected):
        return "Kafka writes producers in the order of a hash map"
    if log.case.endswith(".after") and all(entry in expected for entry in made):
        return "all that a producer wrote was cleaned away: the log does not know it any more"
    return None


@every_log
def test_what_kafka_keeps_beside_a_log_is_made_again_byte_for_byte(
    log: KafkaLog, tmp_path: Path
) -> None:
    made = recovered(log.directory, tmp_path)
    for path in sorted(log.directory.iterdir()):
        theirs, ours = path.read_bytes(), made.pop(path.name, None)
        if theirs != ours:
            assert explained(log, path.name, theirs, ours), path.name
    assert not made, "Kafka has no such file"


def test_hardly_any_file_needs_an_explanation(tmp_path: Path) -> None:
    same, reasons = 0, Counter[str | None]()
    for number, log in enumerate(LOGS):
        scratch = tmp_path / str(number)
        scratch.mkdir()
        made = recovered(log.directory, scratch)
        for path in log.directory.iterdir():
            theirs, ours = path.read_bytes(), made.get(path.name)
            if theirs == ours:
                same += 1
            else:
                reasons[explained(log, path.name, theirs, ours)] += 1
    del reasons["a snapshot inside the log only saves time"]
    assert len(reasons) == 5
    assert None not in reasons
    assert same > 20 * reasons.total(), reasons


@pytest.mark.parametrize("version", VERSIONS)
def test_a_whole_data_directory_of_kafkas_is_opened_and_left_as_it_was(
    version: str, tmp_path: Path
) -> None:
    source = data_directory(version)
    copy = shutil.copytree(source, tmp_path / "data")
    config = LogConfig()  # Kafka's own topics have the default interval between index entries
    directory = DataDirectory.open(RealDisk(copy), lambda _: config, NOW_MS)
    assert directory.findings == []
    names = {path.name for path in source.iterdir() if (path / "partition.metadata").exists()}
    assert {str(partition) for partition in directory.logs} == names
    for partition, log in directory.logs.items():
        log.check()
        ends = [int(path.stem) for path in (source / str(partition)).glob("*.snapshot")]
        assert log.end_offset == max(ends), partition
    directory.close(NOW_MS)
    for path in sorted(source.rglob("*.log")):
        assert (copy / path.relative_to(source)).read_bytes() == path.read_bytes()


def test_there_is_something_to_compare() -> None:
    files = [path for path in DATA.rglob("*") if path.suffix in MADE_AGAIN and path.stat().st_size]
    kinds = {kind: sum(path.suffix == kind for path in files) for kind in MADE_AGAIN}
    assert min(kinds.values()) >= 20, kinds
