"""A broker that is cut off from the others still answers: does its word hold a transaction up?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.client.retrying import Patience
from sexton.client.transacting import GROUP, Committed, init_producer_id, stable_offset
from sexton.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sexton.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from sexton.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from sexton.protocol.wire import Response
from sexton.stores import coordinators
from tests.wire_broker import wire_broker

T = TypeVar("T")
PATIENCE = Patience(timeout_ms=500, backoff_ms=1, most_backoff_ms=20)
OFFERS = {3: (4, 12), 9: (8, 9), 10: (4, 6), 22: (2, 5)}


class Broker:
    """Believes that it coordinates everything; one that is cut off cannot write that down."""

    def __init__(self, node: int, error: KafkaError) -> None:
        self.address = ("", 0)
        self._node, self._error = node, error
        self.others: list[Broker] = []

    def answer(self, request: Any) -> Response:
        match request:
            case MetadataRequest():
                every = [self, *self.others]
                told = [MetadataResponseBroker(each._node, *each.address) for each in every]
                return MetadataResponse(brokers=told)
            case FindCoordinatorRequest(coordinator_keys=keys):
                found = [Coordinator(key, self._node, *self.address) for key in keys]
                return FindCoordinatorResponse(coordinators=found)
            case InitProducerIdRequest():
                return InitProducerIdResponse(error_code=self._error, producer_id=self._node)
            case OffsetFetchRequest():
                offset = OffsetFetchResponsePartitions(0, committed_offset=5, metadata="")
                topic = OffsetFetchResponseTopics("t", partitions=[offset])
                group = OffsetFetchResponseGroup("g", [topic], self._error)
                return OffsetFetchResponse(groups=[group])
        raise AssertionError(request)


def asked(ask: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        cut_off = Broker(1, KafkaError.COORDINATOR_NOT_AVAILABLE)
        well = Broker(2, KafkaError.NONE)
        cut_off.others, well.others = [well], [cut_off]
        async with (
            wire_broker(cut_off.answer, OFFERS) as cut_off.address,
            wire_broker(well.answer, OFFERS) as well.address,
            Client("{}:{},{}:{}".format(*cut_off.address, *well.address)) as client,
        ):
            return await ask(client)

    return asyncio.run(run())


def test_a_producer_finds_its_coordinator_past_a_broker_that_is_cut_off() -> None:
    transaction = asked(lambda client: init_producer_id(client, "x", 60_000, PATIENCE))
    assert transaction.producer_id == 2


def test_committed_offsets_are_found_past_a_broker_that_is_cut_off() -> None:
    at = TopicPartition("t", 0)
    found = asked(lambda client: stable_offset(client, "g", at, PATIENCE))
    assert found == Committed(5, "")


def test_a_store_finds_its_group_past_a_broker_that_is_cut_off() -> None:
    async def ask(coordinator: Connection) -> int:
        (group,) = (await coordinator.ask(OffsetFetchRequest())).groups
        if group.error_code:
            raise refused(group.error_code, "the group g")
        return group.topics[0].partitions[0].committed_offset

    def find(client: Client) -> Awaitable[int]:
        return coordinators.Coordinator(client, GROUP, "g").until_ready(ask, PATIENCE)

    assert asked(find) == 5
