"""What brokers refuse for good ends a batch at once, and the user is told what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sexton.base.errors import PeerError, Refused
from sexton.spark.asking import ARE_THEY_UP
from sexton.spark.sink import write as write_frame
from sexton.spark.sink_insisting import insist
from sexton.spark.sink_line import Line
from sexton.spark.sink_protocol import PREFIX, Plan
from sexton.spark.sink_settings import SinkSettings, sink_settings
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.audit.test_rights import OPTIONS, READ, TOPIC, TRANSACTIONAL_ID, deny
from tests.spark.sink_faults import (
    PARTITIONS,
    QUICK,
    Blobs,
    blobs,
    committed,
    plan_of,
    trouble,
    until_over,
    write,
)

GROUP, WRITE = 3, 4  # Kafka's ResourceType and AclOperation
ATTEMPTS = 3


class Tried:
    """A batch without Spark; counts how often it is tried."""

    def __init__(self, cluster: Cluster, topic: str, given: Blobs) -> None:
        self.plan = plan_of(cluster, topic, 0)
        self.settings = settings_for(cluster, topic)
        self.given = given
        self.times = 0

    def run(self) -> bool:
        self.times = 0
        return insist("sink", self.settings, lambda _timeout_ms: self.plan, self._attempt)

    def _attempt(self, plan: Plan, _number: int) -> bool:
        self.times += 1
        return write(plan, [(at, bytearray(data)) for at, data in self.given])


def settings_for(cluster: Cluster, topic: str) -> SinkSettings:
    servers = cluster.bootstrap_servers
    return sink_settings(topic=topic, bootstrap_servers=servers, attempts=ATTEMPTS)


@pytest.fixture(scope="module")
def one() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


def test_records_that_a_topic_never_takes_are_not_sent_again(one: EmbeddedCluster) -> None:
    one.create_topic("small", PARTITIONS, {"max.message.bytes": 1_000})
    fits = blobs("small", range(2))
    tried = Tried(one, "small", [*fits, *blobs("small", range(2, 4), width=2_000)])
    with pytest.raises(Refused, match=r"MESSAGE_TOO_LARGE.*set kafka.batch.size below"):
        tried.run()
    assert tried.times == 1
    until_over(one, "small")  # nobody waits for what was sent before
    one.alter_topic("small", {"max.message.bytes": 10_000})
    assert tried.run()
    assert trouble(committed(one, "small", PARTITIONS), 4) == []


def test_a_wrong_address_is_told_soon(spark: SparkSession) -> None:
    """And not after all attempts have waited as long as for a broker that restarts."""
    options = {"default.api.timeout.ms": "600000"}
    settings = sink_settings(
        topic="any", bootstrap_servers="127.0.0.1:1", options=options, attempts=1
    )
    with pytest.raises(PeerError, match=r"127\.0\.0\.1:1: cannot be reached") as caught:
        write_frame(spark.range(1).selectExpr("string(id) AS value"), settings, "mistyped")
    assert caught.value.hint == ARE_THEY_UP


def test_brokers_that_were_met_are_waited_for() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        line = Line({"bootstrap.servers": cluster.bootstrap_servers})
        with line.talk() as talk:
            line.meet(talk, QUICK)
        cluster.kill(1)
        with line.talk() as talk:
            line.meet(talk, QUICK)  # whoever asks now has the patience that he has
            line.hang_up()


def test_what_may_pass_is_tried_again(one: EmbeddedCluster) -> None:
    one.create_topic("passing", PARTITIONS)
    tried = Tried(one, "passing", [])

    def fails(_plan: Plan, _number: int) -> bool:
        tried.times += 1
        raise PeerError("a broker", "hung up")

    with pytest.raises(PeerError):
        insist("sink", tried.settings, lambda _timeout_ms: tried.plan, fails)
    assert tried.times == ATTEMPTS


def test_a_refusal_that_a_task_met_has_its_remedy_too(
    spark: SparkSession, three: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    three.create_topic("keyed", 2, {"cleanup.policy": "compact"})
    df = spark.range(2).selectExpr("string(id) AS value")
    with pytest.raises(Refused, match=r"INVALID_RECORD.*every row needs a key") as caught:
        write_frame(df, settings_for(three, "keyed"), "keyless")
    assert "\n" not in str(caught.value)
    assert "attempt=" not in caplog.text  # there was but one
    assert write_frame(df.selectExpr("value AS key", "value"), settings_for(three, "keyed"), "ok")


@pytest.fixture(scope="module")
def guarded() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(nodes=1, options=OPTIONS)) as kafka:
        yield kafka


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize(
    ("kind", "operation", "named"),
    [
        (TOPIC, WRITE, "Write on each topic"),
        (TOPIC, READ, "Read on topic-read, whose offset the marker is"),
        (GROUP, READ, f"Read on the group {PREFIX}group-read"),
        (TRANSACTIONAL_ID, WRITE, f"Write on the transactional id {PREFIX}id-write"),
    ],
)
def test_a_right_that_is_missing_is_named(
    guarded: ApacheKafka, kind: int, operation: int, named: str
) -> None:
    kinds = {TOPIC: "topic", GROUP: "group", TRANSACTIONAL_ID: "id"}
    topic = f"{kinds[kind]}-{'read' if operation == READ else 'write'}"
    guarded.create_topic(topic, PARTITIONS)
    tried = Tried(guarded, topic, blobs(topic, range(4)))
    deny(guarded, kind, topic if kind == TOPIC else f"{PREFIX}{topic}", operation)
    seen: list[Refused] = []

    def is_refused() -> bool:  # as soon as the broker has heard of it
        try:
            tried.run()
        except Refused as error:
            seen.append(error)
        return bool(seen)

    until(is_refused, "a refusal")
    assert seen[0].error.name.endswith("AUTHORIZATION_FAILED")
    assert named in str(seen[0].hint)
    assert tried.times == 1
