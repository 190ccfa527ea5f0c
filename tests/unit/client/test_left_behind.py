"""A coordinator is down, and nobody has taken over: does a list look as if there were no more?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from sexton.base.errors import Refused
from sexton.client.client import Client
from sexton.client.groups import OFFSETS_TOPIC, list_groups
from sexton.client.retrying import Patience
from sexton.client.transaction_lists import list_transactions
from sexton.client.transactions import STATE_TOPIC
from sexton.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
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

T = TypeVar("T")
AT_ONCE = Patience(timeout_ms=0)


class Broker:
    """The only one that is up; two parts of each log were on broker 2."""

    def __init__(self) -> None:
        self.address = ("", 0)

    def answer(self, request: Any) -> Response:
        if isinstance(request, ListGroupsRequest):
            return ListGroupsResponse()
        if isinstance(request, ListTransactionsRequest):
            return ListTransactionsResponse()
        parts = [
            MetadataResponsePartition(partition_index=part, leader_id=leader, replica_nodes=[node])
            for part, leader, node in ((0, 1, 1), (1, -1, 2), (2, -1, 2))
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(1, *self.address)],
            topics=[
                MetadataResponseTopic(name=name, partitions=parts)
                for name in (OFFSETS_TOPIC, STATE_TOPIC)
            ],
        )


def asked(ask: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        broker = Broker()
        async with (
            wire_broker(broker.answer, {3: (4, 12), 16: (0, 5), 66: (0, 1)}) as broker.address,
            Client("{}:{}".format(*broker.address)) as client,
        ):
            return await ask(client)

    return asyncio.run(run())


def test_a_list_without_the_groups_that_nobody_coordinates_is_an_error() -> None:
    with pytest.raises(Refused, match="nobody leads __consumer_offsets-1"):
        asked(lambda client: list_groups(client, AT_ONCE))


def test_whoever_coordinated_transactions_that_nobody_does_now_is_named() -> None:
    why = "nobody leads what it had of __transaction_state"
    assert asked(list_transactions).unasked == ((2, why),)
