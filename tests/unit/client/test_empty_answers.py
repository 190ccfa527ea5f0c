"""A broker answers without records, and says that there is more: is anything skipped silently?

Here is what Kafka's brokers answer with tiered storage: what is below the local log's start is read
from elsewhere, and until that has come, each answer is without records and without an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sexton.base.errors import PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.reading import PartitionReader
from sexton.client.replica import Chunk
from sexton.client.retrying import Patience
from sexton.guard.repair_copy import keep_copy
from sexton.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sexton.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sexton.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sexton.protocol.wire import Response
from tests.log_text import Writer, at_offset
from tests.wire_broker import wire_broker

T = TypeVar("T")
AT = TopicPartition("t", 0)
SHORT = Patience(timeout_ms=200, backoff_ms=10, most_backoff_ms=20)


@dataclass(slots=True)
class Broker:
    """Records 0 to 5 of a log that ends at 10; those below 3 are in tiered storage, or none are."""

    local_start: int = 0
    slow: int = 0  # so many answers go out before what is elsewhere has come
    waits_for_fetch: bool = False  # Kafka before 3.8: only as long as the Fetch allows
    sends_to: int = -1  # a replica.selector.class of somebody's own
    address: tuple[str, int] = ("", 0)

    def answer(self, request: Any) -> Response:
        match request:
            case MetadataRequest():
                place = MetadataResponsePartition(
                    partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
                )
                return MetadataResponse(
                    brokers=[MetadataResponseBroker(1, *self.address)],
                    topics=[MetadataResponseTopic(name="t", partitions=[place])],
                )
            case ListOffsetsRequest():
                offset = {-1: 10, -2: 0, -4: self.local_start}
                wanted = request.topics[0].partitions[0].timestamp
                told = ListOffsetsPartitionResponse(partition_index=0, offset=offset[wanted])
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [told])])
            case FetchRequest():
                return self._fetched(request)
        raise AssertionError(request)

    def _fetched(self, request: FetchRequest) -> FetchResponse:
        start = request.topics[0].partitions[0].fetch_offset
        records = b""
        if self.sends_to < 0 and self._has(start, request.max_wait_ms) and start < 6:
            records = at_offset(Writer().batch("a=1"), start)
        data = PartitionData(
            partition_index=0, high_watermark=10, last_stable_offset=10, log_start_offset=0,
            records=records, preferred_read_replica=self.sends_to,
        )  # fmt: skip
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[data])])

    def _has(self, start: int, wait_ms: int) -> bool:
        if start >= self.local_start:
            return True
        if self.waits_for_fetch:
            return wait_ms > 0
        self.slow -= 1
        return self.slow < 0


def asked_of(broker: Broker, ask: Callable[[Client], Awaitable[T]], list_offsets: int = 11) -> T:
    async def run() -> T:
        offers = {1: (11, 12), 2: (1, list_offsets), 3: (4, 12)}
        async with (
            wire_broker(broker.answer, offers) as broker.address,
            Client("{}:{}".format(*broker.address)) as client,
        ):
            return await ask(client)

    return asyncio.run(run())


async def offsets_in(chunks: AsyncIterable[Chunk]) -> list[int]:
    return [batch.header.base_offset async for chunk in chunks for batch in chunk.batches()]


async def by_reader(client: Client) -> list[int]:
    return await offsets_in(PartitionReader(client, AT, patience=SHORT).read(0, 10))


async def by_replica(client: Client) -> list[int]:
    return await offsets_in(client.replica(AT, 1).read(0))


@pytest.mark.parametrize("list_offsets", [11, 7])
def test_what_was_compacted_away_at_the_end_is_not_waited_for(list_offsets: int) -> None:
    """7: the last version of a Kafka without tiered storage."""
    assert asked_of(Broker(), by_reader, list_offsets) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("tiered", [Broker(3, slow=3), Broker(3, waits_for_fetch=True)])
def test_records_that_come_late_from_tiered_storage_are_read(tiered: Broker) -> None:
    assert asked_of(tiered, by_reader) == [0, 1, 2, 3, 4, 5]


def test_a_replica_read_for_an_audit_waits_as_well() -> None:
    assert asked_of(Broker(3, slow=1), by_replica) == [0, 1, 2, 3, 4, 5]


def test_a_copy_before_a_repair_is_whole(tmp_path: Path) -> None:
    async def copy(client: Client) -> bytes:
        return (await keep_copy(client, AT, 1, tmp_path)).read_bytes()

    records = [at_offset(Writer().batch("a=1"), offset) for offset in range(6)]
    assert asked_of(Broker(3, slow=3), copy) == b"".join(records)


@pytest.mark.parametrize("read", [by_reader, by_replica])
def test_records_that_never_come_from_tiered_storage_are_an_error(
    read: Callable[[Client], Awaitable[list[int]]],
) -> None:
    with pytest.raises(Refused, match=r"t-0 on broker 1, offset 0: is in tiered storage") as raised:
        asked_of(Broker(3, slow=1_000_000), read)
    assert "remote.fetch.max.wait.ms" in str(raised.value)


def test_a_leader_that_sends_readers_elsewhere_has_not_said_that_nothing_is_there() -> None:
    with pytest.raises(PeerError, match="wants t-0 on broker 1 to be read from broker 2"):
        asked_of(Broker(sends_to=2), by_reader)
