"""No coordinator knows a transaction, or says that it is over: does it coordinate still?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sexton.client.client import Client
from sexton.client.retrying import Patience
from sexton.client.transactions import STATE_TOPIC, Transactions, transactions
from sexton.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from sexton.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from sexton.protocol.messages.list_transactions import TransactionState as Listed
from sexton.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sexton.protocol.wire import Response
from tests.wire_broker import wire_broker


class Cluster:
    """Broker 2 coordinates, unless it `moves` to broker 1 just before broker 2 is asked."""

    def __init__(self, moves: bool) -> None:
        self.addresses: dict[int, tuple[str, int]] = {}
        self._moves = moves
        self._leader, self._epoch = 2, 1

    def answer(self, node: int, request: Any) -> Response:
        if isinstance(request, ListTransactionsRequest):
            if node == 2 and self._moves:
                self._leader, self._epoch = 1, 2
            return ListTransactionsResponse()
        part = MetadataResponsePartition(
            partition_index=0, leader_id=self._leader, leader_epoch=self._epoch
        )
        return MetadataResponse(
            brokers=[MetadataResponseBroker(n, *at) for n, at in self.addresses.items()],
            topics=[MetadataResponseTopic(name=STATE_TOPIC, partitions=[part])],
        )


@pytest.mark.parametrize("moves", [False, True])
def test_a_transaction_that_moved_past_us_is_not_called_absent(moves: bool) -> None:
    async def run() -> bool:
        cluster = Cluster(moves)
        offers = {3: (4, 12), 66: (0, 1)}
        async with (
            wire_broker(lambda asked: cluster.answer(1, asked), offers) as cluster.addresses[1],
            wire_broker(lambda asked: cluster.answer(2, asked), offers) as cluster.addresses[2],
            Client("{}:{}".format(*cluster.addresses[1])) as client,
        ):
            return (await transactions(client, [7])).complete

    assert asyncio.run(run()) is not moves


class Replaced:
    """Broker 1 took over from another one, which has not heard of it: its metadata is older."""

    def __init__(self, told: dict[int, str], leaders: dict[int, tuple[int, int]]) -> None:
        self.addresses: dict[int, tuple[str, int]] = {}
        self._told, self._leaders = told, leaders

    def answer(self, node: int, request: Any) -> Response:
        if isinstance(request, ListTransactionsRequest):
            listed = [Listed("x", 7, self._told[node])] if node in self._told else []
            return ListTransactionsResponse(transaction_states=listed)
        if isinstance(request, DescribeTransactionsRequest):
            state = TransactionState(
                transactional_id="x", transaction_state=self._told[node], producer_id=7,
                topics=[TopicData("t", [0])] if self._told[node] == "Ongoing" else [],
            )  # fmt: skip
            return DescribeTransactionsResponse(transaction_states=[state])
        leader, epoch = self._leaders[node]
        part = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(n, *at) for n, at in self.addresses.items()],
            topics=[MetadataResponseTopic(name=STATE_TOPIC, partitions=[part])],
        )


def told_by(cluster: Replaced, first: int) -> Transactions:
    async def run() -> Transactions:
        offers = {3: (4, 12), 65: (0, 0), 66: (0, 1)}
        async with (
            wire_broker(lambda asked: cluster.answer(1, asked), offers) as cluster.addresses[1],
            wire_broker(lambda asked: cluster.answer(2, asked), offers) as cluster.addresses[2],
            Client("{}:{}".format(*cluster.addresses[first])) as client,
        ):
            return await transactions(client, [7])

    return asyncio.run(run())


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.client.transactions.NEWS", Patience(timeout_ms=0))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize(("node", "other"), [(1, 2), (2, 1)])
def test_one_that_was_replaced_does_not_talk_over_the_one_that_is_at_it(
    first: int, node: int, other: int
) -> None:
    """In whatever order they are asked."""
    leaders = {node: (node, 2), other: (other, 1)}
    told = told_by(Replaced({node: "Ongoing", other: "Empty"}, leaders), first)
    assert (told.by_producer[7].coordinator, told.by_producer[7].is_open) == (node, True)
    assert not told.complete


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("first", [1, 2])
def test_unless_brokers_agree_on_who_coordinates_one_may_know_more(first: int) -> None:
    for told, leaders, complete in (
        ({2: "Empty"}, {1: (1, 2), 2: (2, 1)}, False),  # broker 1 is about to take over
        ({2: "Empty"}, {1: (2, 1), 2: (2, 1)}, True),
        ({1: "Empty", 2: "Empty"}, {1: (2, 1), 2: (2, 1)}, False),
    ):
        assert told_by(Replaced(told, leaders), first).complete is complete
