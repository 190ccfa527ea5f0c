"""An output that brokers will not take fails its own message on Spark, too, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sexton.base.errors import ConfigError
from sexton.client.client import Client
from sexton.records.layout import Codec
from sexton.spark import Message, Output
from sexton.spark.retry_outputs import NotTaken, Target, targets_of
from sexton.spark.retry_rules import RetryRules
from sexton.spark.retry_stages import main_rows
from sexton.spark.sink_insisting import final_error
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from tests.audit.test_rights import DESCRIBE, OPTIONS, TOPIC, deny
from tests.spark.retry_pipelines import Driver, locks, outputs, pipeline
from tests.spark.sink_faults import QUICK, committed

WRITE = 4  # Kafka's AclOperation
LARGE = 2 << 20  # more than Kafka takes if nobody has raised it


def handle(message: Message) -> Output | bytes | None:
    match message.value:
        case b"1":
            return Output(Random(1).randbytes(LARGE), message.key)
        case b"2":
            return Output(b"2", message.key, topic="made-later")
        case b"3":
            return Output(b"3", None, topic="compacted")
        case b"4":
            return Output(b"4", message.key, (("count", 4),))  # type: ignore[arg-type]
        case b"5":
            return Output(b"5" * LARGE, message.key)  # compressed it is small
    return message.value


def dead_letters(cluster: Cluster, topic: str) -> dict[bytes, dict[str, str]]:
    """By value, the headers of each."""
    places = [TopicPartition(topic, number, 0) for number in range(2)]
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "letters",
            "enable.partition.eof": True,
        }
    )
    found: dict[bytes, dict[str, str]] = {}
    try:
        consumer.assign(places)
        ended = 0
        while ended < len(places):
            message = consumer.poll(60)
            assert message is not None, "nothing is heard of the topic"
            if message.error() is not None:
                ended += 1
                continue
            headers: list[tuple[str, bytes]] = message.headers() or []  # type: ignore[assignment]
            found[message.value() or b""] = {name: told.decode() for name, told in headers}
    finally:
        consumer.close()
    return found


def test_an_output_that_will_not_be_taken_is_the_failure_of_its_message(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    three.create_topic("compacted", 2, configs={"cleanup.policy": "compact"})
    ours = pipeline(three, "weighed", handle)
    ours = replace(ours, sink=replace(ours.sink, codec=Codec.LZ4))
    driver = Driver(spark, ours)
    driver.run(0, range(12))
    # Each is of a key of its own, 2, 3 and 4 are not free: 8, 9 and 10 wait behind them.
    seen = [value or b"" for *_, value in outputs(three, "weighed")]
    assert sorted(value[:2] for value in seen) == [b"0", b"11", b"55", b"6", b"7"]
    ((value, letter),) = dead_letters(three, ours.topics.dead).items()
    assert value == b"1" and letter["sexton.dead.exception"] == "OutputTooLarge"
    assert letter["sexton.dead.reason"].startswith("an output to weighed-out cannot be written: it")
    assert letter["sexton.dead.reason"].endswith("max.message.bytes of the topic is 1048588")
    held = {key: lock.attempts for key, lock in locks(three, ours).items()}
    assert held == {
        b"weighed-0-1": 1, b"weighed-1-1": 1, b"weighed-0-2": 1,
        b"weighed-0-4": 0, b"weighed-1-4": 0, b"weighed-0-5": 0,
    }  # fmt: skip
    three.create_topic("made-later", 2)
    driver.settle(1)
    assert locks(three, ours) == {}
    assert [value for *_, value in committed(three, "made-later", 2)] == [b"2"]
    letters = dead_letters(three, ours.topics.dead)
    assert {value: each["sexton.dead.exception"] for value, each in letters.items()} == {
        b"1": "OutputTooLarge", b"3": "OutputRefused", b"4": "TypeError"
    }  # fmt: skip
    assert letters[b"3"]["sexton.dead.attempts"] == "3"
    assert "has no key, and the topic is compacted" in letters[b"3"]["sexton.dead.reason"]


@pytest.mark.kafka
def test_what_brokers_refuse_all_the_same_ends_the_query_and_names_the_message(
    spark: SparkSession, kafka4: ApacheKafka
) -> None:
    """As they might for reasons of their own: nobody looks at it before here."""
    kafka4.create_topic("keyed", 2, configs={"cleanup.policy": "compact"})

    def without_a_key(message: Message) -> Output | None:
        return Output(b"3", None, topic="keyed") if message.value == b"3" else None

    ours = pipeline(kafka4, "unweighed", without_a_key)
    ours = replace(ours, rules=RetryRules(weighs=False))
    with pytest.raises(NotTaken, match="INVALID_RECORD") as refused:
        Driver(spark, ours).run(0, range(12))
    assert "that of one message" in str(refused.value)
    assert "unweighed-1-1 (key key-3) to keyed" in str(refused.value)
    assert "let the handler raise Dead for it" in str(refused.value)


def test_an_output_that_nobody_weighs_ends_the_query(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    large = pipeline(three, "unweighed", lambda _: Random(1).randbytes(LARGE))
    with pytest.raises(ConfigError, match=r"max.message.bytes of the topic is 1048588"):
        Driver(spark, replace(large, rules=RetryRules(weighs=False))).run(0, range(1))


def test_a_message_that_cannot_be_kept_is_named_with_the_remedy(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """And its handler is not run again for what cannot become right by that."""
    runs = tmp_path / "runs"

    def fails(message: Message) -> None:
        with runs.open("a") as log:
            log.write(f"{message.id} ")
        raise ValueError(f"not {message.id}")

    ours = pipeline(three, "unkept", fails)
    driver = Driver(spark, ours, attempts=5)
    driver.run(0, range(0))  # makes the topics
    three.alter_topic(ours.topics.retry, {"max.message.bytes": 100})
    with pytest.raises(ConfigError) as refused:
        driver.run(1, range(1, 2))
    assert runs.read_text() == "unkept-1-0 "
    told = str(refused.value)
    assert "unkept-1-0: the message (key key-1) has to be kept, and cannot be" in told
    assert f"raise max.message.bytes of {ours.topics.retry}" in told
    with pytest.raises(ConfigError, match=r"has max\.message\.bytes=100, and messages of up to"):
        Driver(spark, ours).run(1, range(1, 2))  # and a query does not begin with it


def test_a_row_of_another_topic_is_not_taken_for_one_of_ours(spark: SparkSession) -> None:
    """By partition and offset it would be one, and what waits would be mixed up."""
    columns = "topic string, key binary, value binary, partition int, offset bigint"
    rows = [(topic, b"k", b"v", 0, 7) for topic in ("orders", "payments")]
    df = spark.createDataFrame(rows, columns).selectExpr("*", "now() AS timestamp")
    (ours,) = main_rows(df.where("topic = 'orders'"), "key", "orders").collect()
    assert (ours.of, ours.id) == (0, 7)
    with pytest.raises(PySparkException) as caught:
        main_rows(df, "key", "orders").collect()
    final = final_error("ordered retry", caught.value)
    assert isinstance(final, ConfigError)
    assert "row of the topic payments, and this pipeline is that of orders" in str(final)


@pytest.fixture
def guarded() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(nodes=1, options=OPTIONS)) as one:
        yield one


@pytest.mark.kafka
def test_a_topic_that_we_may_not_write_to_is_known_before(
    spark: SparkSession, guarded: ApacheKafka
) -> None:
    for topic in ("unwritten", "unseen"):
        guarded.create_topic(topic, 2)

    def denied(message: Message) -> Output | bytes | None:
        return Output(b"1", topic="unwritten") if message.value == b"1" else message.value

    ours = pipeline(guarded, "rights", denied)
    deny(guarded, TOPIC, "unwritten", WRITE)
    deny(guarded, TOPIC, "unseen", DESCRIBE)
    names = ["rights-out", "unwritten", "unseen", "nowhere"]
    found = asyncio.run(looked_at(guarded, names))
    assert found["rights-out"].limits is not None and found["rights-out"].limits.partitions == 2
    assert {name: found[name].why for name in names[1:]} == {
        "unwritten": "not authorized",
        "unseen": "not authorized",
        "nowhere": "there is no such topic",
    }
    Driver(spark, ours).run(0, range(6))
    written = sorted(value or b"" for *_, value in outputs(guarded, "rights"))
    assert written == [b"0", b"2", b"3", b"4", b"5"]
    assert {key: lock.attempts for key, lock in locks(guarded, ours).items()} == {b"rights-1-0": 1}


async def looked_at(cluster: Cluster, names: list[str]) -> dict[str, Target]:
    async with Client(cluster.bootstrap_servers) as client:
        return await targets_of(client, names, QUICK)
