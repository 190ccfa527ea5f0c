"""Kafka's own command-line tools, on a cluster of ours: what an administrator would type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.base.errors import PeerError
from sexton.testing.apache_kafka import run_tool
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.kafka_jars import KAFKA_4, kafka_jars
from sexton.testing.waiting import until

pytestmark = pytest.mark.kafka

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
ACLS = "org.apache.kafka.tools.AclCommand"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as cluster:
        yield cluster


class Shell:
    def __init__(self, cluster: EmbeddedCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory

    def __call__(self, tool: str, *words: str) -> str:
        where = ("--bootstrap-server", self.cluster.bootstrap_servers)
        return run_tool(kafka_jars(KAFKA_4), tool, *where, *words, timeout_s=60)

    def file(self, name: str, content: object) -> str:
        path = self.directory / name
        path.write_text(json.dumps(content))
        return str(path)


@pytest.fixture
def shell(cluster: EmbeddedCluster, tmp_path: Path) -> Shell:
    return Shell(cluster, tmp_path)


def test_a_topic_is_created_grown_described_and_deleted(shell: Shell) -> None:
    shell(TOPICS, "--create", "--topic", "t", "--partitions", "2", "--replication-factor", "3")
    shell(TOPICS, "--alter", "--topic", "t", "--partitions", "3")
    text = shell(TOPICS, "--describe", "--topic", "t")
    assert "PartitionCount: 3" in text and "ReplicationFactor: 3" in text
    shell(TOPICS, "--delete", "--topic", "t")
    assert "t" not in shell(TOPICS, "--list").split()


def test_an_unknown_option_is_named_to_whoever_sets_it(shell: Shell) -> None:
    with pytest.raises(PeerError, match=r"retension\.ms"):
        shell(TOPICS, "--create", "--topic", "odd", "--config", "retension.ms=1")


def test_options_are_changed_and_shown(shell: Shell) -> None:
    shell(TOPICS, "--create", "--topic", "options")
    of = ("--entity-type", "topics", "--entity-name", "options")
    shell(CONFIGS, "--alter", *of, "--add-config", "retention.ms=1000,cleanup.policy=[compact]")
    text = shell(CONFIGS, "--describe", *of)
    assert "retention.ms=1000" in text and "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact" in text


def test_replicas_move_and_a_leader_is_elected(shell: Shell) -> None:
    shell(TOPICS, "--create", "--topic", "moving", "--replica-assignment", "1:2")
    plan = {"version": 1, "partitions": [{"topic": "moving", "partition": 0, "replicas": [3, 1]}]}
    file = ("--reassignment-json-file", shell.file("plan.json", plan))
    assert "Successfully started" in shell(REASSIGN, "--execute", *file, "--throttle", "1000000")
    until(lambda: "is completed" in shell(REASSIGN, "--verify", *file), "the reassignment")
    assert "Replicas: 3,1" in shell(TOPICS, "--describe", "--topic", "moving")
    shell(ELECTION, "--election-type", "preferred", "--topic", "moving", "--partition", "0")
    assert "Leader: 3" in shell(TOPICS, "--describe", "--topic", "moving")


def test_records_logs_transactions_and_acls_are_looked_after(shell: Shell) -> None:
    shell(TOPICS, "--create", "--topic", "logged", "--replication-factor", "3")
    offsets = {"version": 1, "partitions": [{"topic": "logged", "partition": 0, "offset": -1}]}
    text = shell(RECORDS, "--offset-json-file", shell.file("offsets.json", offsets))
    assert "low_watermark: 0" in text
    assert "logged-0" in shell(LOG_DIRS, "--describe", "--topic-list", "logged")
    assert "TransactionalId" in shell(TRANSACTIONS, "list")
    assert "ProducerId" in shell(TRANSACTIONS, "find-hanging", "--broker-id", "1")
    with pytest.raises(PeerError, match="No Authorizer is configured"):
        shell(ACLS, "--list")
