"""Do retries come due without new rows, and does a query go on with what waits?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sexton.machines.retry_settings import Backoff
from sexton.spark import Message, ordered_retry
from sexton.spark.retry import SLOW_START
from sexton.testing.embedded import EmbeddedCluster
from tests.spark.retry_driver import ROWS, rows_to
from tests.spark.retry_pipelines import COLUMNS, Outputs
from tests.spark.sink_faults import trouble

RUNNER = "python_streaming_source_runner"  # a source's process


def trouble_of(query: StreamingQuery) -> str:
    return "" if query.isActive else str(query.exception())


@contextmanager
def a_python_that_does_not_come_up(spark: SparkSession, place: Path) -> Iterator[Path]:
    """The first process of a source ends before it has told Spark that it is there."""
    mark, python = place / "once", place / "python"
    mark.touch()
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *{RUNNER}*) rm "{mark}" 2>/dev/null && exit 1;; esac\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    before = spark.sparkContext.pythonExec
    spark.sparkContext.pythonExec = str(python)
    try:
        yield mark
    finally:
        spark.sparkContext.pythonExec = before


def test_a_query_goes_on_with_what_waits(
    spark: SparkSession,
    three: EmbeddedCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While a service is down, 1 and 8 fail. More rows come, the query stops, the service is up."""
    for topic in ("flows", "flows-out"):
        three.create_topic(topic, 2)
    down = tmp_path / "down"
    down.touch()

    def handle(message: Message) -> bytes | None:
        if message.value in (b"1", b"8") and (down.exists() or message.attempts < 2):
            raise ConnectionError("the service is down")
        return message.value

    def start() -> StreamingQuery:
        rows = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "files"))
        return ordered_retry(
            rows, handle, topic="flows", output_topic="flows-out", name="billing",
            max_attempts=1000, bootstrap_servers=three.bootstrap_servers,
            checkpoint=str(tmp_path / "checkpoint"), backoff=Backoff(500, factor=1.0),
        )  # fmt: skip

    outputs = Outputs(three, "flows-out")
    rows_to(tmp_path / "files", range(1))
    with a_python_that_does_not_come_up(spark, tmp_path) as mark:
        query = start()
    assert not mark.exists() and SLOW_START in caplog.text
    try:  # all but 1 and 8, and of their keys 7, 13, 19, 14 and 20 behind them
        outputs.await_count(ROWS - 7, lambda: trouble_of(query))
    finally:
        query.stop()
    rows_to(tmp_path / "files", range(1, 2))
    down.unlink()
    query = start()
    try:
        outputs.await_count(2 * ROWS, lambda: trouble_of(query))  # the last without any new row
    finally:
        query.stop()
    assert trouble(outputs.seen, 2 * ROWS) == []
