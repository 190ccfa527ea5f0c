"""Brokers say different things of who leads: which is the newest, and who is waited for?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sexton.base.partitions import TopicPartition
from sexton.client import newest
from sexton.client.client import Client
from sexton.client.newest import newest_topology
from sexton.client.topology import PartitionPlace
from sexton.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sexton.protocol.wire import Response
from tests.wire_broker import wire_broker

AT = TopicPartition("t", 0)
OFFERS = {3: (4, 12)}
ONE, OTHER = b"1" * 16, b"2" * 16  # topic ids


class Broker:
    """It knows of one leader; the brokers that it names can be dialled."""

    def __init__(self, leader: int, epoch: int, topic_id: bytes = ONE) -> None:
        self.address = ("", 0)
        self.asked = 0
        self.others: list[tuple[str, int]] = []
        self._place = MetadataResponsePartition(0, 0, leader, epoch, [1, 2])
        self._topic_id = topic_id

    def answer(self, request: Any) -> Response:
        assert isinstance(request, MetadataRequest)
        self.asked += 1
        addresses = enumerate([self.address, *self.others], 1)
        topic = MetadataResponseTopic(0, "t", self._topic_id, partitions=[self._place])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node, *address) for node, address in addresses],
            topics=[topic],
        )


async def led(first: Broker, second: Broker) -> PartitionPlace:
    """By whom, to a client that was given the first alone."""
    async with (
        wire_broker(first.answer, OFFERS) as first.address,
        wire_broker(second.answer, OFFERS) as second.address,
        Client("{}:{}".format(*first.address)) as client,
    ):
        first.others = [second.address]
        return (await newest_topology(client, ["t"])).place(AT)


def test_the_highest_epoch_is_the_newest() -> None:
    assert asyncio.run(led(Broker(1, epoch=4), Broker(2, epoch=5))).leader == 2
    assert asyncio.run(led(Broker(2, epoch=5), Broker(1, epoch=4))).leader == 2


def test_epochs_of_two_topics_with_one_name_are_not_compared() -> None:
    place = asyncio.run(led(Broker(1, epoch=0), Broker(2, epoch=5, topic_id=OTHER)))
    assert (place.leader, place.leader_epoch) == (1, 0)


def test_who_says_nothing_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "ANSWER_MS", 50)
    dialled = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1
        try:
            await reader.read()
        finally:
            writer.close()

    async def run() -> None:
        first = Broker(1, epoch=4)
        async with (
            await asyncio.start_server(silent, "127.0.0.1", 0) as server,
            wire_broker(first.answer, OFFERS) as first.address,
            Client("{}:{}".format(*first.address)) as client,
        ):
            first.others = [server.sockets[0].getsockname()[:2]]
            for _ in range(3):
                found = await newest_topology(client, ["t"])
                assert found.place(AT).leader == 1

    asyncio.run(run())
    assert dialled == 1
