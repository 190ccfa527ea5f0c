"""A retry topic that has lost what waits: the group's offset knows of it, and nobody goes on."""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from sexton.base.errors import ConfigError
from sexton.retry import Message, OrderedRetry, Retry
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S, send


class Told:
    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.handled: list[bytes] = []

    def start(self, *failing: bytes) -> OrderedRetry:
        def handle(message: Message) -> None:
            if message.value in failing:
                raise Retry("the other service is down", after_s=3600)
            self.handled.append(message.value)

        return OrderedRetry(handle, topic="orders", group="g", bootstrap_servers=self.servers)

    def set_offset(self, to: int) -> None:
        """As kafka-consumer-groups.sh does it."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        offsets = ConsumerGroupTopicPartitions("g", [TopicPartition("orders", 0, to)])
        admin.alter_consumer_group_offsets([offsets])["g"].result(PATIENCE_S)


@pytest.fixture
def told(kafka: EmbeddedCluster) -> Told:
    """0:1 waits, and its topics are gone."""
    told = Told(kafka.bootstrap_servers)
    kafka.create_topic("orders", 1)
    send(told.servers, "orders", keys=1, numbers=range(2))
    with told.start(b"0:1") as retry:
        until(lambda: retry.count("redirected") == 1, "0:1 waits", PATIENCE_S)
    admin = AdminClient({"bootstrap.servers": told.servers})
    for deleted in admin.delete_topics(["orders.g.locks", "orders.g.retry"]).values():
        deleted.result(PATIENCE_S)
    send(told.servers, "orders", keys=1, numbers=range(2, 3))
    return told


def refused(told: Told) -> None:
    with pytest.raises(ConfigError, match="orders-0-1: waits, as the group has committed"):
        told.start().run()
    assert told.handled == [b"0:0"]


def test_what_waited_is_not_forgotten(told: Told) -> None:
    refused(told)
    refused(told)  # it is not over by having been told
    told.set_offset(1)
    with told.start():
        until(lambda: len(told.handled) == 3, "all is handled", PATIENCE_S)
    assert told.handled == [b"0:0", b"0:1", b"0:2"]


def test_what_waited_is_given_up_if_an_operator_says_so(told: Told) -> None:
    refused(told)
    told.set_offset(2)
    with told.start():
        until(lambda: len(told.handled) == 2, "the others are handled", PATIENCE_S)
    assert told.handled == [b"0:0", b"0:2"]
