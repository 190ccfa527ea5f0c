"""Java programs of ours (`java/*.java`), run against Kafka's jars and a cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from sexton.testing.apache_kafka import tool_command
from sexton.testing.kafka_jars import KafkaJars

SOURCES = Path(__file__).parent / "java"


def answers(jars: KafkaJars, name: str, *arguments: str, timeout_s: float) -> list[dict[str, Any]]:
    """What a program printed, one JSON object a line."""
    done = subprocess.run(
        tool_command(jars, str(SOURCES / f"{name}.java"), arguments),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:4000]
    return [json.loads(line) for line in done.stdout.splitlines()]
