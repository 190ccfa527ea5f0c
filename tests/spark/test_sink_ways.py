"""Is every row there once, whether a micro-batch goes through a shuffle or through one task?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from sexton.spark import exactly_once, sink, sink_ways
from sexton.spark.sink_ways import is_narrow
from sexton.testing.embedded import EmbeddedCluster
from tests.spark.sink_faults import committed, trouble

ROWS, FILES = 50, 3


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which way each batch went; on a busy machine even these may take long."""
    monkeypatch.setattr(sink_ways, "SHARE", 0)
    ways: list[str] = []

    def watch(name: str) -> None:
        go = getattr(sink, name)

        def watched(*given: Any) -> Any:
            ways.append(name)
            return go(*given)

        monkeypatch.setattr(sink, name, watched)

    watch("_in_one_task")
    watch("_answers")
    return ways


def files_of(directory: Path) -> str:
    directory.mkdir()
    for number in range(FILES):
        values = range(number * ROWS, (number + 1) * ROWS)
        keys = [b"key-%d" % (value % 7) for value in values]
        table = pa.table({"key": keys, "value": [str(value) for value in values]})
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=ROWS // 2)
    return str(directory)


def run(stream: DataFrame, cluster: EmbeddedCluster, topic: str, checkpoint: Path) -> None:
    exactly_once(
        stream, topic=topic, bootstrap_servers=cluster.bootstrap_servers,
        checkpoint=str(checkpoint), trigger={"availableNow": True},
    ).awaitTermination()  # fmt: skip


def test_small_batches_after_the_first_go_through_one_task(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, taken: list[str]
) -> None:
    three.create_topic("ways", 3)
    reader = spark.readStream.schema("key binary, value string").option("maxFilesPerTrigger", 1)
    stream = reader.parquet(files_of(tmp_path / "files"))
    run(stream, three, "ways", tmp_path / "checkpoint")
    assert taken == ["_answers", "_in_one_task", "_in_one_task"]
    seen = committed(three, "ways", 3)
    assert trouble(seen, ROWS * FILES) == []
    assert {partition for partition, _key, _value in seen} == {0, 1, 2}


def test_a_stream_with_state_has_all_its_tasks(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, taken: list[str]
) -> None:
    three.create_topic("state", 1)
    reader = spark.readStream.schema("key binary, value string").option("maxFilesPerTrigger", 1)
    stream = reader.parquet(files_of(tmp_path / "files")).dropDuplicates(["key"])
    run(stream, three, "state", tmp_path / "checkpoint")
    assert set(taken) == {"_answers"}
    assert len(committed(three, "state", 1)) == 7


def test_a_plan_is_narrow_if_it_is_one_stage(spark: SparkSession) -> None:
    numbers = spark.range(0, 100, 1, 2)
    assert is_narrow(numbers.selectExpr("string(id) AS value").where("value > '3'"))
    assert not is_narrow(numbers.selectExpr("id % 3 AS value").distinct())
    assert not is_narrow(numbers.repartition(3))
