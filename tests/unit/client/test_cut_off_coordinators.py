"""A broker that is cut off from the others still answers: does its word hold a transaction up?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.client.retrying import Patience
from sexton.client.transacting import GROUP, TRANSACTION, Committed, init_producer_id, stable_offset
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
    """Believes that it coordinates everything; one that is cut off cannot write that down.

    Or it `knows` that it is cut off, and names nobody.
    """

    def __init__(self, node: int, error: KafkaError, knows: bool = False) -> None:
        self.address = ("", 0)
        self.asked = 0  # who coordinates
        self._node, self.error, self._knows = node, error, knows
        self.others: list[Broker] = []

    def answer(self, request: Any) -> Response:
        match request:
            case MetadataRequest():
                every = [self, *self.others]
                told = [MetadataResponseBroker(each._node, *each.address) for each in every]
                return MetadataResponse(brokers=told)
            case FindCoordinatorRequest(coordinator_keys=keys):
                self.asked += 1
                found = [Coordinator(key, self._node, *self.address) for key in keys]
                if self._knows:
                    found = [Coordinator(key, -1, "", -1, self.error) for key in keys]
                return FindCoordinatorResponse(coordinators=found)
            case InitProducerIdRequest():
                return InitProducerIdResponse(error_code=self.error, producer_id=self._node)
            case OffsetFetchRequest():
                offset = OffsetFetchResponsePartitions(0, committed_offset=5, metadata="")
                topic = OffsetFetchResponseTopics("t", partitions=[offset])
                group = OffsetFetchResponseGroup("g", [topic], self.error)
                return OffsetFetchResponse(groups=[group])
        raise AssertionError(request)


def asked(ask: Callable[[Client], Awaitable[T]], knows: bool) -> T:
    async def run() -> T:
        cut_off = Broker(1, KafkaError.COORDINATOR_NOT_AVAILABLE, knows)
        well = Broker(2, KafkaError.NONE)
        cut_off.others, well.others = [well], [cut_off]
        async with (
            wire_broker(cut_off.answer, OFFERS) as cut_off.address,
            wire_broker(well.answer, OFFERS) as well.address,
            Client("{}:{},{}:{}".format(*cut_off.address, *well.address)) as client,
        ):
            found = await ask(client)
            assert cut_off.asked == 1
            return found

    return asyncio.run(run())


knows = pytest.mark.parametrize("knows", [False, True])


@knows
def test_a_producer_finds_its_coordinator_past_a_broker_that_is_cut_off(knows: bool) -> None:
    transaction = asked(lambda client: init_producer_id(client, "x", 60_000, PATIENCE), knows)
    assert transaction.producer_id == 2


@knows
def test_committed_offsets_are_found_past_a_broker_that_is_cut_off(knows: bool) -> None:
    at = TopicPartition("t", 0)
    found = asked(lambda client: stable_offset(client, "g", at, PATIENCE), knows)
    assert found == Committed(5, "")


@knows
def test_a_store_finds_its_group_past_a_broker_that_is_cut_off(knows: bool) -> None:
    async def ask(coordinator: Connection) -> int:
        (group,) = (await coordinator.ask(OffsetFetchRequest())).groups
        if group.error_code:
            raise refused(group.error_code, "the group g")
        return group.topics[0].partitions[0].committed_offset

    def find(client: Client) -> Awaitable[int]:
        return coordinators.Coordinator(client, GROUP, "g").until_ready(ask, PATIENCE)

    assert asked(find, knows) == 5


def test_a_group_that_is_not_ready_says_nothing_about_who_coordinates_a_transaction() -> None:
    async def run() -> None:
        broker = Broker(1, KafkaError.NONE)
        async with (
            wire_broker(broker.answer, OFFERS) as broker.address,
            Client("{}:{}".format(*broker.address)) as client,
        ):
            await init_producer_id(client, "x", 60_000, PATIENCE)
            broker.error = KafkaError.UNSTABLE_OFFSET_COMMIT
            with pytest.raises(Refused):
                await stable_offset(client, "g", TopicPartition("t", 0), Patience(timeout_ms=0))
            assert client.coordinators == {(TRANSACTION, "x"): 1}

    asyncio.run(run())


def test_a_broker_that_is_doubted_twice_for_one_answer_is_not_asked_again() -> None:
    """Of one answer, several may doubt something: each partition that has no leader there."""

    async def find(client: Client) -> Connection:
        await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), range(4, 7))
        client.look_elsewhere()
        client.look_elsewhere()
        await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), range(4, 7))
        return await client.any_broker()

    asked(find, knows=True)
