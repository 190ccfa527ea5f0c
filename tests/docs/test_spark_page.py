"""The page about the Spark source has every option and column that there is."""

from __future__ import annotations

import re
from pathlib import Path

from sexton.client.replica import CHUNK_BYTES
from sexton.client.retrying import PATIENT
from sexton.spark.columns import COLUMNS, EXTRA, HEADERS, PATH, REPLICA
from sexton.spark.options import KAFKA_OPTIONS, OPTIONS

PAGE = (Path(__file__).parents[2] / "docs/reference/spark.md").read_text(encoding="utf-8")
NAMES = re.compile(r"`([A-Za-z_.*]+)`")


def first_cells(heading: str) -> set[str]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return {name for row in rows for name in NAMES.findall(row.split("|")[1])}


def test_every_option_is_there() -> None:
    security = {"kafka.security.protocol", "kafka.ssl.*", "kafka.sasl.*"}
    kafka = {f"kafka.{name}" for name in KAFKA_OPTIONS}
    assert first_cells("Options") == {*OPTIONS, *kafka, *security}


def test_every_column_is_there() -> None:
    assert first_cells("Columns") == {*COLUMNS, HEADERS, REPLICA, PATH, *EXTRA}


def test_the_defaults_are_the_true_ones() -> None:
    for name, value in (
        ("kafka.default.api.timeout.ms", PATIENT.timeout_ms),
        ("kafka.max.partition.fetch.bytes", CHUNK_BYTES),
    ):
        assert f"| `{name}` | {value} |" in PAGE
