"""The same on Apache Kafka: with its newest transactions, and with those before KIP-890."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4
from sexton.testing.waiting import until
from tests.stores.counting import app
from tests.stores.harness import (
    all_told,
    make_topics,
    regressions,
    state,
    sums,
    wait_until_active,
    wait_until_done,
    write,
)


@pytest.mark.kafka
@pytest.mark.parametrize("version", [KAFKA_3_9, KAFKA_4])
def test_counts_and_promotions_are_exact(version: str, tmp_path: Path) -> None:
    with ApacheKafka(KafkaConfig(nodes=1, version=version)) as kafka:
        make_topics(kafka, 2)
        servers = kafka.bootstrap_servers
        written = write(servers, [(i % 2, f"key_{i % 10}") for i in range(200)])
        with app(servers, tmp_path / "a") as first:
            wait_until_done(first, written)
            with app(servers, tmp_path / "b") as second:
                wait_until_active(second, 1)
                written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(200)])
                wait_until_done(second, written // 2)
                until(lambda: all_told(servers), "both have told of their copies", 60)
                first.close()
                wait_until_active(second, 2)
                written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(200)])
                wait_until_done(second, written)
                assert state(second, 0) == {f"key_{i}": 60 for i in (0, 2, 4, 6, 8)}
        found = [*sums(servers, 0), *sums(servers, 1)]
        assert regressions(found) == []
        assert len(found) == written
