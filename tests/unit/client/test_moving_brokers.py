"""A broker comes back under another address: is it found there, and nobody else taken for it?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import WRONG_PROTOCOL, Connection
from sexton.client.retrying import Patience
from sexton.client.roving import RovingClient
from sexton.client.transacting import Committed, stable_offset
from sexton.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sexton.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
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
from tests.wire_broker import wire_broker

AT = TopicPartition("t", 0)
AT_ONCE = Patience(timeout_ms=0)
OFFERS = {3: (4, 12), 9: (8, 9), 10: (4, 6), 16: (0, 5)}
Address = tuple[str, int]


@dataclass(slots=True)
class Cluster:
    """Broker 2 stays where it is; broker 1 was at `old`, and whoever is there now is not it."""

    old: Address = ("", 0)
    new: Address = ("", 0)
    steady: Address = ("", 0)
    metadata: dict[int, Address] = field(default_factory=dict)

    def answering(self, name: str) -> Callable[[Any], Response]:
        def answer(request: Any) -> Response:
            match request:
                case MetadataRequest():
                    told = [MetadataResponseBroker(n, *at) for n, at in self.metadata.items()]
                    return MetadataResponse(brokers=told)
                case FindCoordinatorRequest():
                    found = Coordinator("g", 1, *self.new)
                    return FindCoordinatorResponse(coordinators=[found])
                case ListGroupsRequest():
                    return ListGroupsResponse(groups=[ListedGroup(name)])
                case OffsetFetchRequest():
                    offset = OffsetFetchResponsePartitions(0, committed_offset=5, metadata=name)
                    topic = OffsetFetchResponseTopics("t", partitions=[offset])
                    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", [topic])])
            raise AssertionError(request)

        return answer


def in_cluster(talk: Callable[[Cluster, Client], Awaitable[None]], kind: type = Client) -> None:
    async def run() -> None:
        all_ = Cluster()
        async with (
            wire_broker(all_.answering("somebody else"), OFFERS) as all_.old,
            wire_broker(all_.answering("broker 1"), OFFERS) as all_.new,
            wire_broker(all_.answering("broker 2"), OFFERS) as all_.steady,
            kind("{}:{}".format(*all_.steady)) as client,
        ):
            all_.metadata = {1: all_.old, 2: all_.steady}
            await client.topology([])
            await talk(all_, client)

    asyncio.run(run())


async def name_of(connection: Connection) -> str:
    return (await connection.ask(ListGroupsRequest())).groups[0].group_id


def test_a_broker_that_moved_is_found_where_it_is_now() -> None:
    async def talk(cluster: Cluster, client: Client) -> None:
        (await client.broker(1)).close()
        cluster.metadata[1] = cluster.new
        assert await name_of(await client.broker(1)) == "broker 1"

    in_cluster(talk)


def test_a_broker_that_nobody_answered_for_is_looked_up_again() -> None:
    async def talk(cluster: Cluster, client: Client) -> None:
        async with wire_broker(cluster.answering("gone"), OFFERS) as nobody:
            pass
        cluster.metadata[1] = nobody
        await client.topology([])
        with pytest.raises(PeerError, match=r"broker 1 \(127.0.0.1:\d+\): cannot be reached"):
            await client.broker(1)
        cluster.metadata[1] = cluster.new
        assert await name_of(await client.broker(1)) == "broker 1"

    in_cluster(talk)


@pytest.mark.parametrize("kind", [Client, RovingClient])
def test_a_coordinator_is_where_the_one_says_who_names_it(kind: type) -> None:
    """Metadata still has the old address: that broker's news are older."""

    async def talk(_cluster: Cluster, client: Client) -> None:
        assert await stable_offset(client, "g", AT, AT_ONCE) == Committed(5, "broker 1")

    in_cluster(talk, kind)


def test_what_to_do_is_said_of_a_named_broker_as_well() -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def talk(cluster: Cluster, client: Client) -> None:
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as rude:
            cluster.metadata[1] = rude.sockets[0].getsockname()[:2]
            await client.topology([])
            with pytest.raises(PeerError, match="broker 1") as raised:
                await client.broker(1)
            assert raised.value.hint == WRONG_PROTOCOL

    in_cluster(talk)
