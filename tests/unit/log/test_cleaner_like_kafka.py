"""Policy `independent` gives the very bytes that Kafka's own cleaner gave, for the same clock."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sexton.log.cleaner import CleanerOptions, clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.real_disk import RealDisk
from sexton.log.recovery import open_log
from sexton.records import decode
from sexton.records.layout import headers_in
from tests.kafka_data import KafkaLog, kafka_logs

DAY_MS = 24 * 60 * 60 * 1000
FILES = (".log", ".index", ".timeindex", ".txnindex")

# Cases that were cleaned once. (Between further passes Kafka had to be given more records.)
ONCE = [log for log in kafka_logs("cleaned-*.before") if not log.case.endswith(("ice.before",))]


def _pass_time(after: Path) -> int:
    """When Kafka's cleaner ran: a horizon that it set is a day after that."""
    horizons = [
        header.delete_horizon_ms
        for path in sorted(after.glob("*.log"))
        for _, header in headers_in(path.read_bytes(), path.name)
        if header.delete_horizon_ms is not None
    ]
    return min(horizons) - DAY_MS if horizons else 10**13


@pytest.mark.parametrize("log", ONCE, ids=[f"{log.version} {log.case}" for log in ONCE])
def test_a_pass_leaves_the_bytes_that_kafka_left(log: KafkaLog, tmp_path: Path) -> None:
    partition = log.directory.name
    after = Path(str(log.directory).replace(".before", ".after"))
    shutil.copytree(log.directory, tmp_path / partition)
    opened = open_log(
        RealDisk(tmp_path),
        partition,
        LogConfig(index_interval_bytes=1),
        now_ms=0,
        clean=True,
        high_watermark=1 << 62,
    ).log
    if "expired" in log.case:
        opened.producers.known.clear()
    end = min(opened.last_stable_offset, opened.active.base_offset)
    clean(opened, Bounds.independent(_pass_time(after), end), CleanerOptions(DAY_MS))
    opened.close(0)
    ours = {p.name: p.read_bytes() for p in (tmp_path / partition).iterdir() if p.suffix in FILES}
    theirs = {p.name: p.read_bytes() for p in after.iterdir() if p.suffix in FILES}
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        if "snappy" in log.case and name.endswith(".log"):
            # Rust's snappy packs otherwise than Google's: the same records in other bytes.
            assert list(decode(ours[name]).records()) == list(decode(expected).records())
        else:
            assert ours[name] == expected, name
