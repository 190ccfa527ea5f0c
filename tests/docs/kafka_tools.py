"""Kafka's own command-line tools, from its jars, under the names that people type."""

from __future__ import annotations

import shlex
from pathlib import Path

from sexton.testing.apache_kafka import tool_command
from sexton.testing.kafka_jars import KAFKA_4, kafka_jars

TOOLS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-dump-log.sh": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}


def is_tool(line: str) -> bool:
    return line.startswith("kafka-")


def install(directory: Path) -> Path:
    """A directory for the PATH."""
    directory.mkdir()
    for name, main in TOOLS.items():
        command = shlex.join(tool_command(kafka_jars(KAFKA_4), main, []))
        (directory / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        (directory / name).chmod(0o755)
    return directory
