"""`sexton cluster` against Apache Kafka itself, whose brokers know nothing of our own APIs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sexton.testing.apache_kafka import ApacheKafka
from tests.conftest import Result, RunSexton

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


@pytest.fixture(params=["kafka4", "kafka39"])
def kafka(request: pytest.FixtureRequest) -> ApacheKafka:
    found: ApacheKafka = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def ask(run_sexton: RunSexton, kafka: ApacheKafka) -> Iterator[object]:
    def run(*words: object) -> Result:
        servers = ("--bootstrap-server", kafka.bootstrap_servers)
        return run_sexton("cluster", *words, *servers, "--format", "json")

    made = run("topics", "commanded", "--create", "--partitions", 2, "--replication-factor", 1)
    assert made.code == 0, made.stderr
    yield run
    assert run("topics", "commanded", "--delete", "--yes").code == 0


def test_everything_that_needs_only_kafkas_protocol(ask: RunSexton) -> None:
    status = ask("status").json
    assert [row["state"] for row in status["brokers"]] == ["up"]
    assert status["summary"]["under_replicated"] == 0
    node = status["brokers"][0]["broker"]

    listed = {row["topic"]: row for row in ask("topics").json["topics"]}
    assert (listed["commanded"]["partitions"], listed["commanded"]["replication_factor"]) == (2, 1)

    replicas = ask("offsets", "commanded").json["replicas"]
    assert [(row["partition"], row["broker"], row["role"]) for row in replicas] == [
        (0, node, "leader"),
        (1, node, "leader"),
    ]
    assert {(row["log_start"], row["high_watermark"], row["log_end"]) for row in replicas} == {
        (0, 0, 0)
    }
    assert {row["mcco"] for row in replicas} == {None}  # it has no such offset

    assert ask("elect", "commanded-0", "--leader", node).code == 0
    moved = ask("reassign", f"commanded-1={node}")
    assert moved.code == 0, moved.stderr
    assert ask("reassign").json["partitions"] == []


def test_what_kafka_refuses_is_told_in_its_words(ask: RunSexton) -> None:
    again = ask("topics", "commanded", "--create")
    assert (again.code, again.json["error"]["subject"]) == (1, "TOPIC_ALREADY_EXISTS")
    nowhere = ask("reassign", "commanded-0=77")
    assert (nowhere.code, nowhere.json["error"]["subject"]) == (1, "INVALID_REPLICA_ASSIGNMENT")
