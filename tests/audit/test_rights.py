"""What somebody may not see is never taken for something that is not there.

Apache Kafka leaves out of its answers what one may not see, or refuses. Neither may become "the
replicas agree", nor "nobody knows this transaction, so abort it".
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from sexton.cli.main import main
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
}
TOPIC, TRANSACTIONAL_ID, LITERAL = 2, 5, 3  # Kafka's ResourceType and PatternType
ALL, READ, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 8, 10  # its AclOperation
DENY, ALLOW = 2, 3  # its AclPermissionType
Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(nodes=1, options=OPTIONS)) as one:
        yield one


@pytest.fixture
def run(kafka: ApacheKafka, capsys: pytest.CaptureFixture[str]) -> Run:
    def sexton(*arguments: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = main([*arguments, "-b", kafka.bootstrap_servers, "--format", "json"])
        return code, json.loads(capsys.readouterr().out)

    return sexton


def deny(kafka: ApacheKafka, kind: int, name: str, operation: int) -> None:
    """Everything is allowed to everybody, but this."""

    async def ask() -> None:
        wanted = [
            AclCreation(kind, name, LITERAL, "User:*", "*", each, permission)
            for each, permission in ((ALL, ALLOW), (operation, DENY))
        ]
        async with Client(kafka.bootstrap_servers) as client:
            for result in (await client.ask(CreateAclsRequest(wanted))).results:
                if result.error_code:
                    raise refused(result.error_code, result.error_message or name)

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("name", "operation", "code"), [("unread", READ, 3), ("undescribed", DESCRIBE, 1),
                                    ("unconfigured", DESCRIBE_CONFIGS, 1)],
)  # fmt: skip
def test_nobody_is_told_that_replicas_agree_which_he_may_not_read(
    kafka: ApacheKafka, run: Run, name: str, operation: int, code: int
) -> None:
    kafka.create_topic(name, [[1]], {"cleanup.policy": "compact"})
    assert run("audit", name, "--engine", "local")[0] == 0
    deny(kafka, TOPIC, name, operation)
    until(lambda: run("audit", name, "--engine", "local")[0] == code, f"the audit exits {code}")
    _code, told = run("audit", name, "--engine", "local")
    assert told["incomplete"] if code == 3 else told["error"]
    assert told["summary"].get("standing") in (None, "incomplete")


def test_a_topic_that_one_may_not_see_does_not_hide_the_others(
    kafka: ApacheKafka, run: Run
) -> None:
    """Nobody can say whether it is compacted."""
    for name in ("open", "closed"):
        kafka.create_topic(name, [[1]], {"cleanup.policy": "compact"})
    deny(kafka, TOPIC, "closed", DESCRIBE_CONFIGS)
    asked = ("audit", "--all-compacted", "--engine", "local")
    until(lambda: run(*asked)[0] == 3, "the audit is incomplete")
    _code, told = run(*asked)
    assert "the topic closed" in [each["subject"] for each in told["incomplete"]]
    assert "open" in [each["topic"] for each in told["topics"]]


def test_a_transaction_whose_coordinator_is_hidden_is_not_aborted(
    kafka: ApacheKafka, run: Run
) -> None:
    """It is under way, and only its age says that it may be."""
    kafka.create_topic("orders", [[1]], {"cleanup.policy": "compact"})
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "seen", "linger.ms": 0}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", "1", "k")
    assert producer.flush(60) == 0
    abort = ("txn", "abort", "--topic", "orders", "--partition", "0", "--start-offset", "0")
    code, told = run(*abort)
    assert code == 1 and told["summary"]["ended"] == "under way", "its coordinator says so"

    deny(kafka, TRANSACTIONAL_ID, "seen", DESCRIBE)
    until(lambda: run("txn", "list")[1]["transactions"] == [], "the coordinator hides it")
    code, told = run(*abort)
    assert code == 1 and told["summary"]["ended"] == "too young", told
    assert "may still be at work" in told["error"]["why"]
    assert run("txn", "find-hanging", "--topic", "orders")[0] == 0
    assert run("audit", "orders", "--engine", "local")[0] == 0
    producer.commit_transaction(60)
    until(lambda: run("txn", "explain", "orders:0")[1]["summary"]["open"] == 0, "it ends")


def test_a_live_transaction_of_old_events_that_is_hidden_does_not_hang(
    kafka: ApacheKafka, run: Run
) -> None:
    """Its records are a month old, by their own account; whether it hangs cannot be known."""
    kafka.create_topic("replayed", [[1]], {"cleanup.policy": "compact"})
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "replays"}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    month_ms = 30 * 24 * 3_600_000
    producer.produce("replayed", "1", "k", timestamp=int(time.time() * 1000) - month_ms)
    assert producer.flush(60) == 0
    audit = ("audit", "replayed", "--engine", "local")
    assert run(*audit)[0] == 0, "its coordinator says when it began"

    deny(kafka, TRANSACTIONAL_ID, "replays", DESCRIBE)
    until(lambda: run("txn", "list")[1]["transactions"] == [], "the coordinator hides it")
    code, told = run(*audit)
    assert code == 3 and told["findings"] == [], told
    assert "we may not Describe the transactional id" in told["incomplete"][0]["why"]
    producer.commit_transaction(60)
    until(lambda: run(*audit)[0] == 0, "it ends")
