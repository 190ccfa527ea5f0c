"""What Kafka's own authorizer denies: who may not see proves nothing, who may not act waits.

A transaction is alive, dated in the past, and not for everybody to see. Whoever may not see it has
no proof that nobody will end it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sexton.base.partitions import TopicPartition
from sexton.cli.properties import load_properties
from sexton.client.client import Client
from sexton.client.config_changes import BROKER, described
from sexton.client.rights import NotAllowed
from sexton.client.settings import client_config
from sexton.client.transactions import STATE_TOPIC
from sexton.guard.permissions import needing
from sexton.guard.repair import check_rights
from sexton.guard.repair_options import THROTTLED_RATES, check_throttle
from sexton.lab.looking import consumed
from sexton.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sexton.records.few import few_batch
from sexton.testing.apache_kafka import KafkaConfig
from sexton.testing.waiting import until
from tests.conftest import RunSexton
from tests.guard.authorized_kafka import (
    CLUSTER_NAME,
    Allowed,
    AuthorizedKafka,
    write_properties,
)

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

STATE = Allowed("topic", STATE_TOPIC, ("Describe",))
READ = tuple(Allowed("topic", name, ("Read",)) for name in ("orders", "strange"))
CLUSTER = Allowed("cluster", CLUSTER_NAME, ("Describe",))
EVERY_ID = Allowed("transactional id", "*", ("Describe",))
USERS = {
    "all-seeing": (*READ, STATE, CLUSTER, EVERY_ID),
    "of-another": (*READ, STATE, CLUSTER, Allowed("transactional id", "app-2", ("Describe",))),
    "without-cluster": (*READ, STATE, EVERY_ID),
    "without-state": (*READ, CLUSTER, EVERY_ID),
}
ABORT = ("abort", "--topic", "orders", "--partition", "0", "--start-offset", "0")
OPTIONS = {"transaction.partition.verification.enable": False}  # else nobody can be a stranger
MONTH_MS = 30 * 24 * 3_600_000
Txn = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[AuthorizedKafka]:
    with AuthorizedKafka(KafkaConfig(nodes=2, options=OPTIONS), USERS) as two:
        for topic in ("orders", "strange"):
            two.create_topic(topic, [[1, 2]])
        two.allow(USERS)
        yield two


@pytest.fixture
def txn(kafka: AuthorizedKafka, run_sexton: RunSexton, tmp_path: Path) -> Txn:
    def run(user: str, *words: str) -> tuple[int, dict[str, Any]]:
        properties = write_properties(tmp_path / f"{user}.properties", user)
        reach = ("-b", kafka.for_users, "--command-config", properties, "--format", "json")
        answer = run_sexton("txn", *words, *reach)
        return answer.code, answer.json

    return run


def test_a_live_transaction_of_old_events_is_aborted_by_nobody(
    kafka: AuthorizedKafka, txn: Txn
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "app-1"})
    producer.init_transactions(60)
    producer.begin_transaction()
    long_ago_ms = time.time_ns() // 1_000_000 - MONTH_MS
    producer.produce("orders", b"1", b"k", timestamp=long_ago_ms)
    producer.flush(60)

    code, told = txn("of-another", *ABORT)
    assert code == 1 and told["summary"]["aborted"] is False
    assert "we may not Describe every transactional id" in told["error"]["why"], told
    code, told = txn("all-seeing", *ABORT)
    assert code == 1 and "says Ongoing" in told["error"]["why"], told

    producer.commit_transaction(60)
    assert consumed(kafka.bootstrap_servers, "orders").latest == {"k": "1"}


def test_that_a_producer_is_gone_says_only_who_sees_all(kafka: AuthorizedKafka, txn: Txn) -> None:
    asyncio.run(write_as_stranger(kafka))
    at = TopicPartition("strange", 0)
    until(lambda: txn("all-seeing", "explain", f"{at.topic}:0")[1]["summary"]["open"] == 1, "open")
    code, told = txn("all-seeing", "explain", f"{at.topic}:0")
    assert code == 1 and told["transactions"][0]["ended"] == "hanging", told
    for user, missing in (
        ("of-another", "we may not Describe every transactional id"),
        ("without-cluster", "we may not Describe the cluster"),
        ("without-state", f"we may not Describe the topic {STATE_TOPIC}"),
    ):
        code, told = txn(user, "explain", f"{at.topic}:0")
        (found,) = told["transactions"]
        assert (code, found["ended"]) == (3, "not asked"), (user, told)
        assert missing in found["because"]


def test_a_repair_knows_beforehand_that_it_may_not_move_replicas(
    kafka: AuthorizedKafka, tmp_path: Path
) -> None:
    """As Kafka tells of a request that moves nothing."""
    properties = load_properties(write_properties(tmp_path / "user.properties", "all-seeing"))

    async def ask(settings: dict[str, str], servers: str) -> None:
        async with Client(servers, client_config(settings)) as client:
            await check_rights(client, 1_000_000)

    async def throttle(settings: dict[str, str], servers: str) -> None:
        async with Client(servers, client_config(settings)) as client:
            with needing("AlterConfigs", CLUSTER_NAME):
                await check_throttle(client, 1_000_000)

    async def rates(servers: str) -> set[str | None]:
        async with Client(servers) as client:
            found = await described(client, (BROKER, "1"), THROTTLED_RATES)
            return {each.own for each in found.values()} or {None}

    with pytest.raises(NotAllowed, match="allows Alter"):
        asyncio.run(ask(properties, kafka.for_users))
    with pytest.raises(NotAllowed, match="allows AlterConfigs"):
        asyncio.run(throttle(properties, kafka.for_users))
    for check in (ask, throttle):
        asyncio.run(check({}, kafka.bootstrap_servers))  # the control: a user that may do anything
    assert asyncio.run(rates(kafka.bootstrap_servers)) == {None}, "nothing was set"


async def write_as_stranger(kafka: AuthorizedKafka) -> None:
    """A transactional record that nobody has announced: a transaction that will never end."""
    long_ago_ms = time.time_ns() // 1_000_000 - MONTH_MS
    batch = few_batch(
        [(b"h", b"1")],
        long_ago_ms,
        producer_id=424_242,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData("strange", partition_data=[PartitionProduceData(0, batch)])
    async with Client(kafka.bootstrap_servers) as client:
        connection = await client.broker((await client.place(TopicPartition("strange", 0))).leader)
        answer = await connection.ask(ProduceRequest("x", -1, 10_000, [data]), range(9, 12))
        assert not answer.responses[0].partition_responses[0].error_code
