"""Is every row there once, whether a micro-batch goes through a shuffle, a task or the driver?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned
from pyspark.sql import DataFrame, SparkSession

from sexton.spark import exactly_once, sink, sink_ways
from sexton.spark.session import arrow_batches_of, setting
from sexton.spark.sink_ways import is_narrow
from sexton.testing.embedded import EmbeddedCluster
from tests.spark.sink_faults import EPOCH_S, committed, stream_of, trouble

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

    for name in ("_in_one_task", "_answers", "_from_here"):
        watch(name)
    return ways


def run(stream: DataFrame, cluster: EmbeddedCluster, topic: str, checkpoint: Path) -> None:
    exactly_once(
        stream, topic=topic, bootstrap_servers=cluster.bootstrap_servers,
        checkpoint=str(checkpoint), trigger={"availableNow": True},
    ).awaitTermination()  # fmt: skip


@pytest.mark.parametrize(
    ("few", "ways"),
    [
        (ROWS, ["_answers", "_in_one_task", "_in_one_task"]),  # the last had so many: not few
        (ROWS + 1, ["_answers", "_from_here", "_from_here"]),
    ],
)
def test_batches_after_the_first_go_through_one_task_or_the_driver(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, taken: list[str],
    monkeypatch: pytest.MonkeyPatch, few: int, ways: list[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(sink_ways, "FEW_ROWS", few)
    topic = f"ways-{few}"
    three.create_topic(topic, 3)
    reader = spark.readStream.schema("key binary, value string").option("maxFilesPerTrigger", 1)
    stream = reader.parquet(rows_in_files(tmp_path / "files", [ROWS] * FILES))
    run(stream, three, topic, tmp_path / "checkpoint")
    assert taken == ways
    seen = committed(three, topic, 3)
    assert trouble(seen, ROWS * FILES) == []
    assert {partition for partition, _key, _value in seen} == {0, 1, 2}


def test_a_batch_that_is_larger_than_the_last_is_left_to_a_task(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, taken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(sink_ways, "FEW_ROWS", 10)
    three.create_topic("growing", 2)
    counts = [3, 10, 11, 4]  # the first: nobody knows; the third: the driver cannot take it
    rows_in_files(tmp_path / "files", counts)
    stream = stream_of(spark, tmp_path / "files")
    run(stream, three, "growing", tmp_path / "checkpoint")
    # After ten, which are not few, a task; after eleven as well.
    assert taken == ["_answers", "_from_here", "_in_one_task", "_in_one_task"]
    assert trouble(committed(three, "growing", 2), sum(counts)) == []
    taken.clear()
    three.create_topic("suddenly", 2)
    rows_in_files(tmp_path / "more", [3, 9, 11])
    run(stream_of(spark, tmp_path / "more"), three, "suddenly", tmp_path / "other")
    assert taken == ["_answers", "_from_here", "_from_here", "_in_one_task"]
    assert trouble(committed(three, "suddenly", 2), 23) == []


LARGE = 100_000  # bytes of a row; those of the first files have some


@contextmanager
def most_result_bytes(spark: SparkSession, limit: int) -> Iterator[None]:
    """Spark gives no more than this to the driver, from the next job on."""
    conf: Any = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", str(limit))
    try:
        yield
    finally:
        conf.remove("spark.driver.maxResultSize")


@pytest.mark.parametrize(
    ("kept", "most", "given", "ways"),
    [
        (1 << 20, 2 << 30, 40, ["_from_here", "_answers"]),  # it has them, and lets them go
        (32 << 20, 1 << 20, 40, ["_from_here", "_answers"]),  # Spark refuses to give them
        (32 << 20, 2 << 30, 40, ["_from_here"]),  # the control: they are not too large
    ],
    ids=["ours", "spark", "neither"],
)
def test_rows_that_suddenly_are_much_larger_go_the_long_way(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, taken: list[str],
    monkeypatch: pytest.MonkeyPatch, kept: int, most: int, given: int, ways: list[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(sink_ways, "MOST_BYTES", kept)
    topic = f"larger-{kept}-{most}"
    three.create_topic(topic, 2)
    rows_in_files(tmp_path / "files", [3, given], [0, LARGE])
    with most_result_bytes(spark, most):
        run(stream_of(spark, tmp_path / "files"), three, topic, tmp_path / "checkpoint")
    assert taken == ["_answers", *ways]
    seen = committed(three, topic, 2)
    assert trouble(seen, 3 + given) == []
    assert sum(len(value or b"") for _at, _key, value in seen) >= given * LARGE


def test_no_more_rows_are_asked_for_than_would_be_small(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, taken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A few large rows, and then many of that size: the driver does not take them all to see it."""
    monkeypatch.setattr(sink_ways, "FEW_BYTES", 10 * LARGE)
    asked: list[int] = []
    first_rows = sink_ways.first_rows

    def watched(df: DataFrame, most: int) -> list[Any]:
        asked.append(most)
        return first_rows(df, most)

    monkeypatch.setattr(sink_ways, "first_rows", watched)
    three.create_topic("more", 1)
    rows_in_files(tmp_path / "files", [3, 40], [LARGE, LARGE])
    run(stream_of(spark, tmp_path / "files"), three, "more", tmp_path / "checkpoint")
    assert taken == ["_answers", "_from_here", "_in_one_task"]
    assert asked == [10]  # nine are small, and one to see that there are more
    assert trouble(committed(three, "more", 1), 43) == []


def test_the_driver_keeps_the_order_of_several_source_partitions(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, taken: list[str]
) -> None:
    three.create_topic("parts", 1)
    rows_in_files(tmp_path / "files", [5, 40])
    stream = stream_of(spark, tmp_path / "files")
    with setting(spark, "spark.sql.files.maxPartitionBytes", 600):  # less than a file: some parts
        run(stream, three, "parts", tmp_path / "checkpoint")
    assert taken == ["_answers", "_from_here"]
    assert [int(value or b"") for _at, _key, value in committed(three, "parts", 1)] == [*range(45)]


Message = tuple[int | None, bytes | None, bytes | None, Any, int]


def messages(cluster: EmbeddedCluster, topic: str, count: int) -> list[Message]:
    """Partition, key, value, headers and timestamp of so many committed records, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "ways",
            "isolation.level": "read_committed",
        }
    )
    with closing(consumer):
        consumer.assign([Assigned(topic, number, 0) for number in range(3)])
        found: list[Message] = []
        while len(found) < count:
            message = consumer.poll(60)
            assert message is not None and message.error() is None
            found.append(
                (
                    message.partition(), message.key(), message.value(), message.headers(),
                    message.timestamp()[1],
                )
            )  # fmt: skip
    return sorted(found, key=repr)


def rows_with_all_columns(directory: Path, files: int) -> str:
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    rows: list[dict[str, Any]] = [
        {"key": b"a", "value": "1", "headers": headers, "partition": 2},
        {"key": b"b", "value": None, "headers": None, "partition": None},
        {"key": None, "value": "3", "headers": [], "partition": 0},
    ]
    schema = pa.schema(
        {
            "key": pa.binary(), "value": pa.string(), "partition": pa.int16(), "other": pa.int32(),
            "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
            "timestamp": pa.timestamp("us", "UTC"),
        }
    )  # fmt: skip
    directory.mkdir()
    for number in range(files):
        path = directory / f"{number}.parquet"
        told = [{**row, "timestamp": datetime(2024, 6, 1, tzinfo=UTC)} for row in rows]
        pq.write_table(pa.Table.from_pylist(told, schema), path)
        os.utime(path, (EPOCH_S + number, EPOCH_S + number))
    return str(directory)


def test_every_column_means_the_same_whoever_sends(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, taken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    files = rows_with_all_columns(tmp_path / "files", 2)
    headers = "array<struct<key:string,value:binary>>"
    reader = spark.readStream.option("maxFilesPerTrigger", 1).schema(
        f"key binary, value string, partition smallint, other int, headers {headers}, "
        "timestamp timestamp"
    )
    found = {}
    for few, way in ((0, "_in_one_task"), (100, "_from_here")):
        monkeypatch.setattr(sink_ways, "FEW_ROWS", few)
        three.create_topic(f"columns-{few}", 3)
        run(reader.parquet(files), three, f"columns-{few}", tmp_path / f"checkpoint-{few}")
        assert taken[-2:] == ["_answers", way]
        found[few] = messages(three, f"columns-{few}", 6)
    assert found[0] == found[100]
    at_ms = 1_717_200_000_000  # the first of June
    assert found[0].count((2, b"a", b"1", [("h", b"1"), ("h", None)], at_ms)) == 2
    assert found[0].count((0, None, b"3", None, at_ms)) == 2
    assert [value for _at, key, value, *_rest in found[0] if key == b"b"] == [None, None]


def rows_in_files(directory: Path, counts: list[int], widths: list[int] | None = None) -> str:
    """So many rows in each file, numbered from one to the next; Spark goes by their times."""
    directory.mkdir()
    first = 0
    for number, count in enumerate(counts):
        values = range(first, first + count)
        keys = [b"key-%d" % (value % 7) for value in values]
        width = widths[number] if widths else 0
        table = pa.table({"key": keys, "value": [str(value).rjust(width) for value in values]})
        path = directory / f"{number}.parquet"
        pq.write_table(table, path, row_group_size=10)
        os.utime(path, (EPOCH_S + number, EPOCH_S + number))
        first += count
    return str(directory)


def test_a_stream_with_state_has_all_its_tasks(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, taken: list[str]
) -> None:
    three.create_topic("state", 1)
    reader = spark.readStream.schema("key binary, value string").option("maxFilesPerTrigger", 1)
    files = rows_in_files(tmp_path / "files", [ROWS] * FILES)
    stream = reader.parquet(files).dropDuplicates(["key"])
    run(stream, three, "state", tmp_path / "checkpoint")
    assert set(taken) == {"_answers"}
    assert len(committed(three, "state", 1)) == 7


def rows_at_once(spark: SparkSession) -> list[int]:
    """Of each batch that comes to Python."""

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    return [row.rows for row in spark.range(0, 10, 1, 1).mapInArrow(count, "rows bigint").collect()]


def test_rows_to_python_are_counted_but_never_more_than_the_user_allows(
    spark: SparkSession,
) -> None:
    names = [f"spark.sql.execution.arrow.max{what}PerBatch" for what in ("Records", "Bytes")]
    before = [spark.conf.get(name) for name in names]
    assert rows_at_once(spark) == [10]
    with arrow_batches_of(spark, 4):
        assert rows_at_once(spark) == [4, 4, 2]
    with setting(spark, names[0], 3), arrow_batches_of(spark, 4):
        assert rows_at_once(spark) == [3, 3, 3, 1]
    with setting(spark, names[0], 0), arrow_batches_of(spark, 4):  # 0: as many as there are
        assert rows_at_once(spark) == [4, 4, 2]
    assert [spark.conf.get(name) for name in names] == before


def test_a_plan_is_narrow_if_it_is_one_stage(spark: SparkSession) -> None:
    numbers = spark.range(0, 100, 1, 2)
    assert is_narrow(numbers.selectExpr("string(id) AS value").where("value > '3'"))
    assert not is_narrow(numbers.selectExpr("id % 3 AS value").distinct())
    assert not is_narrow(numbers.repartition(3))
