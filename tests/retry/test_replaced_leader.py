"""A start that asks a leader which was replaced, and has not heard of it.

broker 1    leads the lock and the retry topic, and is cut off from the others
A           goes on with brokers 2 and 3: a1 fails, and waits
B           reaches broker 1 first, which knows of no lock; and is not to handle a2
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.listing import LATEST, list_offsets
from sexton.retry import Message, OrderedRetry, Retry, starting
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S

LOCKS, RETRIES = "orders.g.locks", "orders.g.retry"


@pytest.fixture
def three() -> Iterator[EmbeddedCluster]:
    options = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with EmbeddedCluster(options=options) as cluster:
        large = {"max.message.bytes": "2000000"}
        cluster.create_topic("orders", [[2, 3, 1]])
        cluster.create_topic("orders.g.dead", [[2, 3, 1]], large)
        for topic in (LOCKS, RETRIES):
            cluster.create_topic(topic, [[1, 2, 3]], {"cleanup.policy": "compact", **large})
        yield cluster


class Told:
    """What was handled, by whom."""

    def __init__(self) -> None:
        self.handled: list[str] = []

    def by(
        self, who: str, servers: str, *failing: str, mode: str = "transactional"
    ) -> OrderedRetry:
        def handle(message: Message) -> None:
            value = message.value.decode()
            if value in failing:
                raise Retry("the other service is down", after_s=3600)
            self.handled.append(f"{who} {value}")

        return OrderedRetry(
            handle,
            topic="orders",
            group="g",
            bootstrap_servers=servers,
            mode=mode,  # type: ignore[arg-type]
        )


def send(servers: str, value: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    producer.produce("orders", value, "k", 0)
    assert producer.flush(PATIENCE_S) == 0


def one_waits_and_the_first_broker_does_not_know(three: EmbeddedCluster, told: Told) -> None:
    servers = three.bootstrap_servers
    send(servers, "a0")
    with told.by("A", servers) as first:
        first.wait_until_ready()
        until(lambda: told.handled == ["A a0"], "a0 is handled", PATIENCE_S)
    for topic in ("__consumer_offsets", "__transaction_state"):
        three.elect(topic, 0, 2)
    three.isolate(1)
    for topic in (LOCKS, RETRIES):
        three.wait_for(topic, 0, lambda state: state.leader != 1)
    _, others = servers.split(",", 1)
    send(others, "a1")
    with told.by("A", others, "a1") as first:
        until(lambda: first.count("redirected") == 1, "a1 waits", PATIENCE_S)
    send(others, "a2")


@pytest.mark.parametrize("mode", ["transactional", "compensating"])
def test_what_a_replaced_leader_has_not_heard_of_is_not_overtaken(
    three: EmbeddedCluster, mode: str
) -> None:
    told = Told()
    one_waits_and_the_first_broker_does_not_know(three, told)
    first, _ = three.bootstrap_servers.split(",", 1)
    with told.by("B", first, mode=mode) as second:
        second.wait_until_ready(PATIENCE_S)
        assert [standing.depth for standing in second.standings] != [0], "it knows of a1"
        three.heal()
        until(lambda: second.count("redirected") == 1, "a2 waits behind a1", PATIENCE_S)
    assert told.handled == ["A a0"]


def test_without_that_rule_a_message_is_overtaken(
    three: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the end is asked for, and believed.

    In mode `transactional` W would tell that something is missing, and the instance would end.
    """

    async def asked_for(client: Client, at: TopicPartition) -> int:
        return (await list_offsets(client, {at: LATEST}))[at]

    told = Told()
    one_waits_and_the_first_broker_does_not_know(three, told)
    monkeypatch.setattr(starting, "mark_end", asked_for)
    first, _ = three.bootstrap_servers.split(",", 1)
    with told.by("B", first, mode="compensating"):
        until(lambda: "B a2" in told.handled, "a2 overtakes a1", PATIENCE_S)
        three.heal()
