"""Kafka's Java consumer and its tool for groups, on a cluster of ours, with both protocols."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from sexton.testing.apache_kafka import run_tool
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.kafka_jars import KAFKA_4, kafka_jars

pytestmark = pytest.mark.kafka

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
RECORDS = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as cluster:
        for topic in ("classic", "consumer"):
            cluster.create_topic(topic, 2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for number in range(RECORDS):
            for topic in ("classic", "consumer"):
                producer.produce(topic, str(number), str(number))
        assert producer.flush(30) == 0
        yield cluster


def run(cluster: EmbeddedCluster, tool: str, *words: str) -> str:
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    return run_tool(kafka_jars(KAFKA_4), tool, *where, *words, timeout_s=60)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_and_is_looked_after(cluster: EmbeddedCluster, protocol: str) -> None:
    group = f"java-{protocol}"
    said = run(
        cluster,
        CONSUMER,
        *("--topic", protocol, "--group", group, "--from-beginning"),
        *("--max-messages", str(RECORDS), "--timeout-ms", "30000"),
        *("--command-property", f"group.protocol={protocol}"),
    )
    assert sorted(map(int, said.split())) == list(range(RECORDS))

    listed = run(cluster, GROUPS, "--list", "--state", "--type")
    row = next(line.split() for line in listed.splitlines() if line.startswith(group))
    assert row == [group, protocol.title(), "Empty"]

    reset = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute")
    assert run(cluster, GROUPS, *reset).count(protocol) >= 2
    described = run(cluster, GROUPS, "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sum(int(row[5]) for row in rows) == RECORDS, "the lag, from the start again"
    deleted = run(cluster, GROUPS, "--delete", "--group", group)
    assert f"'{group}'" in deleted and "successful" in deleted
