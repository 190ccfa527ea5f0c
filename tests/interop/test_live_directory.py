"""Inspecting the data directory of a running Apache Kafka: no false alarm, nothing changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_jars import KAFKA_4
from sexton.testing.waiting import until
from tests.conftest import RunSexton

pytestmark = pytest.mark.kafka


@pytest.fixture
def kafka() -> Iterator[ApacheKafka]:
    """A cluster of its own: what other tests delete meanwhile would be noted, rightly."""
    with ApacheKafka(KafkaConfig(KAFKA_4)) as cluster:
        yield cluster


def test_a_running_brokers_directory_is_sound(kafka: ApacheKafka, run_sexton: RunSexton) -> None:
    kafka.admin.create_topic("live", 2)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": "live", "linger.ms": 0}
    )
    producer.init_transactions()
    for ending in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(200):
            producer.produce("live", key=str(number), value=b"x" * 100)
        producer.flush()
        ending()
    directory = str(kafka.data_directory(1))
    until(lambda: ended(run_sexton, directory), "the markers of both transactions")
    before = state_of_live(kafka)
    assert len(before) > 8
    for command in ("dump", "stats"):
        assert run_sexton("log", command, directory).code == 0
    assert run_sexton("log", "clean", "--dry-run", f"{directory}/live-0").code == 0
    verified = run_sexton("log", "verify", directory, "--format", "json")
    assert verified.json["findings"] == []
    assert verified.code == 0
    found = {row["partition"]: row["records"] for row in verified.json["partitions"]}
    assert found["live-0"] + found["live-1"] == 400
    assert state_of_live(kafka) == before


def state_of_live(kafka: ApacheKafka) -> dict[str, tuple[int, bytes]]:
    """Of the topic alone: to its own metadata the broker goes on writing."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in kafka.data_directory(1).glob("live-*/*")
    }


def ended(run_sexton: RunSexton, directory: str) -> bool:
    """Both transactions have their markers: a coordinator writes them after it has answered."""
    counted = run_sexton("log", "stats", directory, "--format", "json")
    assert counted.code == 0
    live = [row for row in counted.json["partitions"] if row["partition"].startswith("live-")]
    return [(row["committed"], row["aborted"]) for row in live] == [(1, 1)] * 2
