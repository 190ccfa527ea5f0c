"""The names Kafka gives to a log's files."""

from __future__ import annotations

import re

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED = ".deleted"  # scheduled for deletion; removed when the log is opened
CLEANED = ".cleaned"  # a cleaner's output that is not complete; removed when the log is opened
SWAP = ".swap"  # a cleaner's complete output; takes its place when the log is opened

EPOCHS = "leader-epoch-checkpoint"
METADATA = "partition.metadata"

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_SEGMENT_FILE = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")


def segment_file(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """(base offset, suffix), or None if it is no file of a segment."""
    match = _SEGMENT_FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None
