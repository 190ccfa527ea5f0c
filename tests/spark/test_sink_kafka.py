"""The sink's protocol on Apache Kafka itself, with transactions as 4.x and as 3.9 has them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sexton.base.errors import PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.producing import REQUEST_BYTES
from sexton.client.transacting import ANNOUNCED, IMPLIED, Committed
from sexton.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sexton.spark import write_exactly_once
from sexton.spark.sink import write as write_job
from sexton.spark.sink_marker import SinkRefused
from sexton.spark.sink_protocol import STEPS, Answer, Plan, TooSlow, begin, commit, send
from sexton.spark.sink_settings import sink_settings
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4
from sexton.testing.waiting import until
from tests.conftest import RunSexton
from tests.spark.sink_faults import (
    EACH_A_BATCH,
    PARTITIONS,
    QUICKLY,
    SOME_ARE_SENT,
    WIDE,
    Injected,
    blobs,
    committed,
    fail_at,
    leader_killed_on_the_way,
    plan_of,
    trouble,
    until_over,
    wide_rows,
    write,
)

pytestmark = pytest.mark.kafka
TRANSACTION_STATE = "__transaction_state"


@pytest.fixture(scope="module")
def kafka39() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(KAFKA_3_9, options=QUICKLY)) as cluster:
        yield cluster


@pytest.fixture(params=["kafka4", "kafka39"])
def kafka(request: pytest.FixtureRequest) -> ApacheKafka:
    cluster: ApacheKafka = request.getfixturevalue(request.param)
    return cluster


def test_a_failure_at_any_step_is_made_good(kafka: ApacheKafka, tmp_path: Path) -> None:
    kafka.create_topic("failing", PARTITIONS)
    spoken = begin(plan_of(kafka, "failing", 0)).transaction.version
    assert spoken == (IMPLIED if kafka.config.version == KAFKA_4 else ANNOUNCED)
    for number, step in enumerate(STEPS):
        some = range(20 * number, 20 * number + 20)
        probe = fail_at(step, tmp_path / step, batch=number)
        with pytest.raises(Injected):
            write(plan_of(kafka, "failing", number, probe=probe), blobs("failing", some))
        again = write(plan_of(kafka, "failing", number), blobs("failing", some))
        assert again == (step != "committed")
    assert trouble(committed(kafka, "failing", PARTITIONS), 20 * len(STEPS)) == []
    with pytest.raises(SinkRefused, match="another checkpoint"):
        write(plan_of(kafka, "failing", len(STEPS), query="other"), [])


def test_a_dataframe_is_written_once(spark: SparkSession, kafka: ApacheKafka) -> None:
    """With Spark, by whichever version of transactions the brokers have."""
    kafka.create_topic("job", PARTITIONS)
    where: dict[str, Any] = {"topic": "job", "bootstrap_servers": kafka.bootstrap_servers}
    df = wide_rows(spark, 40)
    assert write_exactly_once(df, job_id="job", options=EACH_A_BATCH, **where)
    assert not write_exactly_once(df, job_id="job", **where)
    assert trouble(committed(kafka, "job", PARTITIONS), 40) == []


def test_several_senders_write_one_transaction(
    spark: SparkSession, kafka: ApacheKafka, tmp_path: Path
) -> None:
    """The first attempt fails when two tasks have sent; two send again."""
    kafka.create_topic("parallel", 4)
    settings = sink_settings(
        topic="parallel", bootstrap_servers=kafka.bootstrap_servers, senders=2, attempts=5,
        probe=fail_at("sending", tmp_path / "failed"),
    )  # fmt: skip
    df = spark.range(0, 400, 1, 4).selectExpr("string(id % 9) AS key", "string(id) AS value")
    assert write_job(df, settings, "parallel")
    assert (tmp_path / "failed").exists()
    assert not write_job(df, settings, "parallel")
    assert trouble(committed(kafka, "parallel", 4), 400) == []


def test_whoever_is_overtaken_can_neither_send_nor_commit(kafka: ApacheKafka) -> None:
    """A worker that was stopped and goes on, and a driver that was believed dead."""
    kafka.create_topic("overtaken", PARTITIONS)
    given = blobs("overtaken", range(20))
    answers: list[Answer] = []

    def slowly() -> Iterator[tuple[TopicPartition, bytearray]]:
        for number, (at, data) in enumerate(given):
            if number == 4:
                copies = [(at, bytearray(data)) for at, data in given]
                answers.append(send(plan_of(kafka, "overtaken", 0), copies))
            yield at, bytearray(data)

    with pytest.raises(Refused):
        send(plan_of(kafka, "overtaken", 0), slowly())
    assert write(plan_of(kafka, "overtaken", 0), [(at, bytearray(data)) for at, data in given])
    with pytest.raises(Refused):
        commit(plan_of(kafka, "overtaken", 0), answers)
    assert trouble(committed(kafka, "overtaken", PARTITIONS), 20) == []


def test_a_batch_that_takes_longer_than_its_transaction_may(kafka: ApacheKafka) -> None:
    kafka.create_topic("slow", PARTITIONS)
    on_the_way = plan_of(kafka, "slow", 0, probe=lambda _step, _batch: None)
    plan = replace(on_the_way, timeout_ms=500)
    answer = send(plan, blobs("slow", range(20)))
    until_over(kafka, "slow")
    with pytest.raises((Refused, TooSlow), match=r"transaction.timeout.ms \(500\)"):
        commit(plan, [answer])

    def slowly() -> Iterator[tuple[TopicPartition, bytearray]]:
        for number, blob in enumerate(blobs("slow", range(20))):
            if number == 4:
                until_over(kafka, "slow")
            yield blob

    with pytest.raises(TooSlow, match="not sent within"):
        write(plan, slowly())
    assert write(plan_of(kafka, "slow", 0), blobs("slow", range(20)))
    assert trouble(committed(kafka, "slow", PARTITIONS), 20) == []


async def shorten(servers: str, plan: Plan, marker: Committed) -> None:
    """The same marker, for a millisecond: how long can be said in old versions of OffsetCommit."""
    entry = OffsetCommitRequestPartition(
        plan.marker_at.partition, marker.offset, committed_metadata=marker.metadata
    )
    topic = OffsetCommitRequestTopic(plan.marker_at.topic, partitions=[entry])
    request = OffsetCommitRequest(plan.group, retention_time_ms=1, topics=[topic])
    async with Client(servers) as client:  # its one broker coordinates everything
        answer = await client.ask(request, range(2, 5))
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [0]


def test_a_marker_that_kafka_has_forgotten_is_missed(kafka: ApacheKafka) -> None:
    kafka.create_topic("idle", PARTITIONS)
    assert write(plan_of(kafka, "idle", 0), blobs("idle", range(10)))
    later = plan_of(kafka, "idle", 1)
    marker = begin(later).marker
    assert marker is not None and marker.offset == 0
    asyncio.run(shorten(kafka.bootstrap_servers, later, marker))
    until(lambda: begin(later).marker is None, "the end of the marker", 120)
    with pytest.raises(SinkRefused, match=r"no marker, but batch 1 is not the first") as refusal:
        write(later, blobs("idle", range(10, 20)))
    assert refusal.value.hint is not None and "after_batch=0" in refusal.value.hint
    assert write(plan_of(kafka, "idle", 1, after=0), blobs("idle", range(10, 20)))
    assert trouble(committed(kafka, "idle", PARTITIONS), 20) == []


def test_a_marker_that_is_kept_by_another_topic_is_not_overlooked(kafka: ApacheKafka) -> None:
    for topic in ("kept", "kept-elsewhere"):
        kafka.create_topic(topic, PARTITIONS)
    plan = plan_of(kafka, "kept", 0)
    assert write(plan, blobs("kept", range(10)))
    moved = replace(plan, marker_at=TopicPartition("kept-elsewhere", 0))
    with pytest.raises(SinkRefused, match="give marker_topic='kept'"):
        write(moved, blobs("kept", range(10)))
    until_over(kafka, "kept")
    assert trouble(committed(kafka, "kept", PARTITIONS), 10) == []


def test_the_doctor_sees_what_is_open_and_ends_it(
    kafka: ApacheKafka, run_sexton: RunSexton
) -> None:
    kafka.create_topic("left", PARTITIONS)
    assert write(plan_of(kafka, "left", 0), blobs("left", range(10)))
    plan = plan_of(kafka, "left", 1)
    answer = send(plan, blobs("left", range(10, 20)))
    doctor = ("sink", "doctor", "-b", kafka.bootstrap_servers, "--format", "json")
    (row,) = [p for p in run_sexton(*doctor).json["pipelines"] if p["pipeline"] == "left"]
    assert (row["transaction"], row["last_batch"], row["rows"]) == ("Ongoing", 0, 10)
    assert row["marker_expires"] > row["written"]
    ended = run_sexton(*doctor, "--name", "left", "--end")
    assert (ended.code, ended.json["summary"]["ended"]) == (0, 1)
    with pytest.raises(Refused):
        commit(plan, [answer])
    assert write(plan, blobs("left", range(10, 20)))
    assert trouble(committed(kafka, "left", PARTITIONS), 20) == []


def test_a_broker_that_leads_and_coordinates_dies_on_the_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    """First without Spark, then, when it is back, with it."""
    with ApacheKafka(KafkaConfig(KAFKA_4, nodes=3, options=QUICKLY)) as kafka:
        kafka.create_topic("before", 1)
        begin(plan_of(kafka, "before", 0))
        node = kafka.leader_of(TRANSACTION_STATE)
        others = [other for other in kafka.node_ids if other != node]
        kafka.create_topic("moving", [[node, *others], [*others, node]])
        given = blobs("moving", range(40), WIDE // 2)

        def until_it_dies() -> Iterator[tuple[TopicPartition, bytearray]]:
            for number, (at, data) in enumerate(given):
                if number == SOME_ARE_SENT:
                    kafka.kill(node)
                yield at, bytearray(data)

        plan = plan_of(kafka, "moving", 0)
        try:
            done = write(plan, until_it_dies())
        except (PeerError, Refused):  # whichever it is, the batch is run again
            done = write(plan, given)
        assert done
        assert trouble(committed(kafka, "moving", PARTITIONS), 40) == []
        kafka.restart(node)
        kafka.create_topic("moved", [[node, *others], [*others, node]])
        with leader_killed_on_the_way(kafka, "moved", tmp_path) as on_the_way:
            settings = sink_settings(
                topic="moved", bootstrap_servers=kafka.bootstrap_servers, probe=on_the_way,
                options=EACH_A_BATCH, requests_of=REQUEST_BYTES,
            )  # fmt: skip
            assert write_job(wide_rows(spark, 60), settings, "moved")
        assert trouble(committed(kafka, "moved", PARTITIONS), 60) == []
