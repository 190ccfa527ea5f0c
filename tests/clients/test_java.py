"""Kafka's own Java clients: every check of `java/ClientChecks.java`, in one run of one JVM."""

from __future__ import annotations

from typing import Any

import pytest

from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.kafka_jars import KAFKA_4, kafka_jars
from tests.clients.conftest import SOON
from tests.clients.java import answers

pytestmark = pytest.mark.kafka

CHECKS = [
    *(f"records-{codec}" for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
    "large-records",
    *(
        f"{what}-{how}"
        for how in ("range", "cooperative", "consumer")
        for what in ("rebalance", "committed", "static")
    ),
    "pattern-consumer",
    "commit-and-abort",
    "open-transaction",
    "zombie",
    "transaction-timeout",
    "loop-range",
    "loop-consumer",
    "stale-member",
    "topics",
    "refused-topics",
    "configs",
    "records-deleted",
    "offsets",
    "groups-classic",
    "groups-consumer",
    "transactions",
    "fenced-by-admin",
    "reassignment",
    "election",
    "log-dirs",
    "cluster",
]
TIMEOUT_S = 300.0


@pytest.fixture(scope="module")
def told(cluster: EmbeddedCluster) -> dict[str, dict[str, Any]]:
    """The answer of each check."""
    found = answers(
        kafka_jars(KAFKA_4), "ClientChecks", cluster.bootstrap_servers, timeout_s=TIMEOUT_S
    )
    return {answer["check"]: answer for answer in found}


def test_every_check_ran(told: dict[str, dict[str, Any]]) -> None:
    assert list(told) == CHECKS


@pytest.mark.parametrize("check", CHECKS)
def test_check(told: dict[str, dict[str, Any]], check: str) -> None:
    assert told[check]["ok"], told[check]["why"]


@pytest.mark.soak
def test_apache_kafka_passes_the_same_checks() -> None:
    """They would prove little if they asked for something that is not so."""
    options = {**SOON, "group.consumer.min.heartbeat.interval.ms": 100}
    with ApacheKafka(KafkaConfig(KAFKA_4, nodes=3, options=options)) as kafka:
        found = answers(kafka.jars, "ClientChecks", kafka.bootstrap_servers, timeout_s=TIMEOUT_S)
    assert [answer for answer in found if not answer["ok"]] == []
    assert [answer["check"] for answer in found] == CHECKS
