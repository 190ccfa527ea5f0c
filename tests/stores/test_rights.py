"""Who may not read how warm a copy is still sees everything else, and that this is missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from sexton.stores.described import describe
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.waiting import until
from tests.stores.counting import app
from tests.stores.harness import make_topics, wait_until_active
from tests.stores.test_commands import sexton

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
}
GROUP, LITERAL, DESCRIBE, DENY = 3, 3, 8, 2  # of Kafka's enums for ACLs


def test_a_group_that_one_may_not_read(tmp_path: Path) -> None:
    with ApacheKafka(KafkaConfig(nodes=1, options=OPTIONS)) as kafka:
        make_topics(kafka, 1)
        servers = kafka.bootstrap_servers
        with app(servers, tmp_path / "a") as first:
            wait_until_active(first, 1)
            with app(servers, tmp_path / "b"):
                until(lambda: seen(servers) == ("a", "b", True), "b has told of its copy", 60)
                deny(servers, "counter-copies-b")
                until(lambda: seen(servers) == ("a", "b", False), "b's word is not for us", 60)
                code, told = sexton("status", "counter", "-b", servers)
    assert code == 3
    why = "how warm its copies are cannot be read: GROUP_AUTHORIZATION_FAILED"
    assert told["incomplete"] == [{"subject": "counter-copies-b", "why": why}]
    assert [each["owner"] for each in told["tasks"]] == ["a"]


def seen(servers: str) -> tuple[str | None, str, bool] | None:
    """Owner, who has the copy, and whether one sees how warm it is."""

    async def ask() -> tuple[str | None, str, bool] | None:
        async with Client(servers) as client:
            [task] = (await describe(client, "counter")).tasks
        for copy in task.copies:
            return task.owner, copy.instance, copy.warmth is not None
        return None

    return asyncio.run(ask())


def deny(servers: str, group: str) -> None:
    async def ask() -> None:
        wanted = AclCreation(GROUP, group, LITERAL, "User:*", "*", DESCRIBE, DENY)
        async with Client(servers) as client:
            for result in (await client.ask(CreateAclsRequest([wanted]))).results:
                if result.error_code:
                    raise refused(result.error_code, result.error_message or group)

    asyncio.run(ask())
