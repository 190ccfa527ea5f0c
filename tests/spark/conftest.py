"""One Spark for all tests here: its start takes longer than most of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import sexton.spark
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.kafka_jars import KAFKA_4
from tests.spark.sink_faults import QUICKLY

Read = Callable[..., DataFrame]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All on one worker (`--dist loadgroup`), so that it is one Spark indeed."""
    for item in items:
        if "tests/spark" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    few = {"spark.sql.shuffle.partitions": "1", "spark.python.worker.idleTimeoutSeconds": "300"}
    with sexton.spark.spark_session("local[2]", settings=few) as session:
        sexton.spark.register(session)
        yield session


@pytest.fixture(scope="session")
def three() -> Iterator[EmbeddedCluster]:
    """Three brokers for all tests here, which use topics of their own, and records of any time.

    They keep all of them: every five minutes a broker looks for what is too old.
    """
    with EmbeddedCluster(brokers=3, options={"log.retention.ms": -1}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka4() -> Iterator[ApacheKafka]:
    """Apache Kafka 4, one node, for tests that are marked `kafka`."""
    with ApacheKafka(KafkaConfig(KAFKA_4, options=QUICKLY)) as kafka:
        yield kafka


@pytest.fixture
def read(spark: SparkSession, three: EmbeddedCluster) -> Read:
    """A DataFrame of a topic: `read("orders", replica="each")`; `__` stands for a dot."""

    def load(topic: str, **options: Any) -> DataFrame:
        reader = spark.read.format("sexton").option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", three.bootstrap_servers)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return reader.load()

    return load
