"""Apache Kafka for the tests that talk to it: one node of each version, shared by all of them.

A test that uses a shared cluster must be marked `@pytest.mark.xdist_group("kafka")`, so that one
worker starts it and not each. A test that kills nodes or wants several starts a cluster of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4, KafkaJars, kafka_jars


@pytest.fixture(scope="session", params=[KAFKA_4, KAFKA_3_9])
def jars(request: pytest.FixtureRequest) -> KafkaJars:
    """The jars of each Kafka version in turn, for tests that run Kafka's tools and no broker."""
    return kafka_jars(request.param)


@pytest.fixture(scope="session")
def kafka4() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(KAFKA_4)) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def kafka39() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(KAFKA_3_9)) as kafka:
        yield kafka
