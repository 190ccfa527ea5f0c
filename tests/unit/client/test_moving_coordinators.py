"""No coordinator knows a transaction: is that so, or did it move while they were asked?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sexton.client.client import Client
from sexton.client.transactions import STATE_TOPIC, transactions
from sexton.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
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
