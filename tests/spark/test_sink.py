"""Does a consumer see every row of a Spark pipeline once, in order, whatever fails on the way?"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Assigned
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sexton.base.errors import ConfigError
from sexton.client.producing import REQUEST_BYTES
from sexton.spark import exactly_once, exactly_once_writer, write_exactly_once
from sexton.spark.sink import start, write
from sexton.spark.sink_marker import SinkRefused
from sexton.spark.sink_protocol import STEPS, Probe, unwatched
from sexton.spark.sink_senders import senders_for
from sexton.spark.sink_settings import SinkSettings, sink_settings
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.spark.sink_faults import (
    EACH_A_BATCH,
    ROWS,
    Injected,
    blobs,
    committed,
    fail_at,
    leader_killed_on_the_way,
    plan_of,
    rows_to,
    stream_of,
    trouble,
    until_ended,
    wide_rows,
)
from tests.spark.sink_faults import write as write_blobs

AVAILABLE = {"availableNow": True}
# A task that fails costs Spark its worker and us seconds: the other steps are tried without Spark.
WHERE = ("sending", "answered", "marked", "committed")
assert set(WHERE) < set(STEPS)


def settings_for(
    cluster: EmbeddedCluster, topic: str, probe: Probe = unwatched, attempts: int = 1
) -> SinkSettings:
    return sink_settings(
        topic=topic, bootstrap_servers=cluster.bootstrap_servers, attempts=attempts, probe=probe
    )


def test_a_stream_is_in_the_topic_once_however_often_it_fails(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """A batch for each step at which the query ends in the middle of it, and one more."""
    three.create_topic("stream", 3)
    files, checkpoint = tmp_path / "files", str(tmp_path / "checkpoint")
    for number, step in enumerate(WHERE):
        rows_to(files, range(number, number + 1))
        probe = fail_at(step, tmp_path / step, batch=number)
        query = start(
            stream_of(spark, files), settings_for(three, "stream", probe), checkpoint,
            trigger=AVAILABLE,
        )  # fmt: skip
        with pytest.raises(StreamingQueryException, match=f"{step} of batch {number}"):
            query.awaitTermination()
    rows_to(files, range(len(WHERE), len(WHERE) + 1))
    query = exactly_once(
        stream_of(spark, files), topic="stream", bootstrap_servers=three.bootstrap_servers,
        checkpoint=checkpoint, trigger=AVAILABLE,
    )  # fmt: skip
    query.awaitTermination()
    seen = committed(three, "stream", 3)
    assert trouble(seen, ROWS * (len(WHERE) + 1)) == []
    assert {partition for partition, _key, _value in seen} == {0, 1, 2}


def test_a_sink_without_transactions_leaves_rows_twice(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """The control: the same stream and failure, and a producer that just writes."""
    three.create_topic("plain", 3)
    rows_to(tmp_path / "files", range(1))
    mark = tmp_path / "failed"

    def produce(rows: list[Row]) -> None:
        producer = Producer({"bootstrap.servers": three.bootstrap_servers})
        for row in rows:
            producer.produce("plain", row.value, bytes(row.key))
        assert producer.flush(60) == 0

    def write_plainly(df: DataFrame, _number: int) -> None:
        produce(df.collect())
        if not mark.exists():
            mark.touch()
            raise Injected("before Spark could note the batch")

    def run() -> StreamingQuery:
        writer = stream_of(spark, tmp_path / "files").writeStream.foreachBatch(write_plainly)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException):
        run().awaitTermination()
    run().awaitTermination()
    assert any("twice" in line for line in trouble(committed(three, "plain", 3), ROWS))


def test_a_pipeline_that_lost_its_checkpoint_is_refused(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    three.create_topic("renewed", 1)
    rows_to(tmp_path / "files", range(1))

    def run(checkpoint: str) -> None:
        exactly_once(
            stream_of(spark, tmp_path / "files"), topic="renewed", name="renewed",
            bootstrap_servers=three.bootstrap_servers, checkpoint=str(tmp_path / checkpoint),
            trigger=AVAILABLE,
        ).awaitTermination()  # fmt: skip

    run("old")
    with pytest.raises(StreamingQueryException, match=r"another checkpoint.*go on with the old"):
        run("new")
    assert trouble(committed(three, "renewed", 1), ROWS) == []


def test_a_checkpoint_that_is_one_batch_too_old_is_refused(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """Spark plans the batch that is in the topic anew, with what has come since: that is not."""
    three.create_topic("restored", 1)

    def run(file: int, checkpoint: str) -> None:
        rows_to(tmp_path / "files", range(file, file + 1))
        files = spark.readStream.schema("key binary, value string").parquet(f"{tmp_path}/files")
        exactly_once(
            files, topic="restored",
            bootstrap_servers=three.bootstrap_servers, checkpoint=str(tmp_path / checkpoint),
            trigger=AVAILABLE,
        ).awaitTermination()  # fmt: skip

    run(0, "newest")
    shutil.copytree(tmp_path / "newest", tmp_path / "restored")
    run(1, "newest")
    with pytest.raises(StreamingQueryException, match=r"batch 1 .*planned.*newest checkpoint"):
        run(2, "restored")
    run(2, "newest")
    assert trouble(committed(three, "restored", 1), 3 * ROWS) == []


def test_a_job_is_written_once_and_its_failed_tasks_again(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    three.create_topic("job", 2)
    df = spark.range(0, 100, 1, 2).selectExpr("string(id % 5) AS key", "string(id) AS value")
    failing = settings_for(three, "job", fail_at("sending", tmp_path / "failed"), 5)
    assert write(df, failing, "first")
    assert (tmp_path / "failed").exists()
    answer_lost = settings_for(three, "answered", fail_at("committed", tmp_path / "lost"), 5)
    three.create_topic("answered", 2)
    assert write(df, answer_lost, "lost")  # it was this call that has written it
    assert (tmp_path / "lost").exists()
    assert not write(df, answer_lost, "lost")
    assert trouble(committed(three, "answered", 2), 100) == []
    assert trouble(committed(three, "job", 2), 100) == []
    where: dict[str, Any] = {"topic": "job", "bootstrap_servers": three.bootstrap_servers}
    assert not write_exactly_once(df, job_id="first", **where)
    with pytest.raises(SinkRefused, match="give marker_topic='job'"):
        write_exactly_once(df, job_id="first", marker_topic="answered", **where)
    assert trouble(committed(three, "job", 2), 100) == []
    none = df.where("value < '0'")
    assert write_exactly_once(none, job_id="empty", **where)
    assert not write_exactly_once(none, job_id="empty", **where)
    # The control: with another id the same rows are there twice.
    assert write_exactly_once(df, job_id="second", **where)
    assert any("twice" in line for line in trouble(committed(three, "job", 2), 100))


def test_a_leader_dies_in_the_middle_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("moved", [[1, 2, 3], [2, 3, 1]])
        with leader_killed_on_the_way(cluster, "moved", tmp_path) as probe:
            settings = sink_settings(
                topic="moved", bootstrap_servers=cluster.bootstrap_servers, probe=probe,
                options=EACH_A_BATCH, requests_of=REQUEST_BYTES,
            )  # fmt: skip
            assert write(wide_rows(spark, 60), settings, "moved")
        assert trouble(committed(cluster, "moved", 2), 60) == []


def test_a_query_that_is_stopped_begins_no_attempt_more(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """Spark ends its job in the middle of a batch. Readers do not wait for what it left open."""
    three.create_topic("halted", 2)
    rows_to(tmp_path / "files", range(1))
    checkpoint, begun = str(tmp_path / "checkpoint"), tmp_path / "begun"

    def probe(step: str, _batch: int) -> None:
        if step == "sending":
            with begun.open("a") as marks:
                marks.write("x")
            until(lambda: False, "the end of the task", 600)

    settings = settings_for(three, "halted", probe, attempts=5)
    query = start(stream_of(spark, tmp_path / "files"), settings, checkpoint, "halted")
    until(begun.exists, "a task that sends", 120)
    query.stop()
    assert not query.isActive
    assert begun.read_text() == "x"
    until_ended(three.bootstrap_servers, "halted")
    start(
        stream_of(spark, tmp_path / "files"), settings_for(three, "halted"), checkpoint,
        "halted", AVAILABLE,
    ).awaitTermination()  # fmt: skip
    assert trouble(committed(three, "halted", 2), ROWS) == []


def test_several_senders_write_one_transaction(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """The first attempt fails in the middle; two tasks have sent then, and two send again."""
    three.create_topic("parallel", 4)
    probe = fail_at("sending", tmp_path / "failed")
    settings = replace(settings_for(three, "parallel", probe, attempts=5), senders="auto")
    df = spark.range(0, 400, 1, 4).selectExpr("string(id % 9) AS key", "string(id) AS value")
    assert write(df, settings, "parallel")
    assert (tmp_path / "failed").exists()
    assert trouble(committed(three, "parallel", 4), 400) == []
    assert not write(df, settings, "parallel")
    assert write(df.where("value < '0'"), replace(settings, senders=2), "nothing")
    assert senders_for(spark, "auto", 4) == 2  # the slots of this session


def test_a_slow_batch_gets_more_time(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    three.create_topic("slow", 2)
    servers, mark = three.bootstrap_servers, tmp_path / "slow"

    def probe(step: str, _batch: int) -> None:
        if step == "sending" and not mark.exists():
            mark.touch()
            until_ended(servers, "job-slow")

    settings = replace(settings_for(three, "slow", probe, attempts=8), timeout_ms=500)
    df = spark.range(0, 100, 1, 2).selectExpr("string(id % 5) AS key", "string(id) AS value")
    assert write(df, settings, "slow")
    assert "not sent within transaction.timeout.ms (500)" in caplog.text
    assert trouble(committed(three, "slow", 2), 100) == []


@dataclass(frozen=True)
class InTheDriver:
    """A probe that stays here; what travels to a task does nothing."""

    probe: Probe

    def __call__(self, step: str, batch: int) -> None:
        self.probe(step, batch)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial, (unwatched,)


def test_a_second_driver_is_noticed_and_nothing_is_there_twice(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """It commits batch 1 when this one was about to."""
    three.create_topic("rivals", 2)
    rows_to(tmp_path / "files", range(2))
    mark = tmp_path / "done"

    def rival(step: str, number: int) -> None:
        if (step, number) == ("answered", 1) and not mark.exists():
            mark.touch()
            plan = plan_of(three, "rivals", 1, query=query.id, run="rival")
            assert write_blobs(plan, blobs("rivals", range(ROWS, 2 * ROWS)))

    settings = settings_for(three, "rivals", InTheDriver(rival), attempts=5)
    stream = stream_of(spark, tmp_path / "files")
    query = start(stream, settings, str(tmp_path / "checkpoint"), "rivals", AVAILABLE)
    with pytest.raises(StreamingQueryException, match=r"another driver has committed batch 1"):
        query.awaitTermination()
    assert trouble(committed(three, "rivals", 2), 2 * ROWS) == []


def test_columns_are_those_of_sparks_own_sink(spark: SparkSession, three: EmbeddedCluster) -> None:
    for topic in ("here", "there"):
        three.create_topic(topic, 2)
    noon = datetime(2024, 6, 1, 12, tzinfo=UTC)
    df = spark.createDataFrame(
        [
            ("here", 1, "a", b"1", noon, [("source", b"x"), ("empty", None)]),
            ("there", 0, "b", None, noon, None),  # a tombstone
            ("here", 1, None, b"3", noon, []),
        ],
        "topic string, partition int, key string, value binary, timestamp timestamp, "
        "headers array<struct<key: string, value: binary>>",
    ).coalesce(1)
    built = exactly_once_writer(df).options(jobId="columns", markerTopic="here")
    built.option("kafka.bootstrap.servers", three.bootstrap_servers)
    assert built.option("kafka.compression.type", "lz4").save()
    consumer = Consumer({"bootstrap.servers": three.bootstrap_servers, "group.id": "columns"})
    try:
        consumer.assign([Assigned("here", 1, 0), Assigned("there", 0, 0)])
        found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        while len(found) < 3:
            message = consumer.poll(30)
            assert message is not None and not message.error()
            place = (message.topic(), message.partition(), message.offset())
            told = (message.key(), message.value(), message.headers() or [], message.timestamp()[1])
            found[place] = told
    finally:
        consumer.close()
    at_noon = int(noon.timestamp() * 1000)
    assert found == {
        ("here", 1, 0): (b"a", b"1", [("source", b"x"), ("empty", None)], at_noon),
        ("here", 1, 1): (None, b"3", [], at_noon),
        ("there", 0, 0): (b"b", None, [], at_noon),
    }


def test_what_cannot_be_written_is_refused_with_words(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    three.create_topic("small", 1, {"max.message.bytes": 1000})
    where: dict[str, Any] = {"topic": "small", "bootstrap_servers": three.bootstrap_servers}
    numbers = spark.range(1)
    with pytest.raises(ConfigError, match=r"no such column.*has id"):
        write_exactly_once(numbers, job_id="a", **where)
    with pytest.raises(ConfigError, match="value: the column is bigint"):
        write_exactly_once(numbers.selectExpr("id AS value"), job_id="a", **where)
    large = numbers.selectExpr("repeat('x', 2000) AS value")
    with pytest.raises(ConfigError, match=r"max.message.bytes of the topic is 1000 \(raise it"):
        write_exactly_once(large, job_id="a", **where)
    missing = {**where, "topic": "nowhere"}
    with pytest.raises(ConfigError, match="there is no such topic"):
        write_exactly_once(large, job_id="a", **missing)
