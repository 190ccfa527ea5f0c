"""Where does a partition end? A leader of an older epoch knows only where it ended then."""

from __future__ import annotations

import asyncio
from typing import Any

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.listing import LATEST, list_offsets
from sexton.client.retrying import Patience
from sexton.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sexton.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sexton.protocol.wire import Response
from tests.wire_broker import wire_broker

AT = TopicPartition("t", 0)
PATIENCE = Patience(backoff_ms=1, most_backoff_ms=1)


class Leader:
    """It led in epoch 3, when the log ended at 7, and does so again in 5; it hears of that late."""

    def __init__(self) -> None:
        self.address = ("", 0)
        self._epoch, self._end = 3, 7

    def answer(self, request: Any) -> Response:
        if not isinstance(request, ListOffsetsRequest):
            place = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=5)
            return MetadataResponse(
                brokers=[MetadataResponseBroker(1, *self.address)],
                topics=[MetadataResponseTopic(name="t", partitions=[place])],
            )
        told = ListOffsetsPartitionResponse(partition_index=0, offset=self._end)
        # As every broker since Kafka 2.1 (KIP-320).
        if request.topics[0].partitions[0].current_leader_epoch > self._epoch:
            told = ListOffsetsPartitionResponse(0, KafkaError.UNKNOWN_LEADER_EPOCH)
        self._epoch, self._end = 5, 9
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [told])])


def test_the_end_is_not_what_a_leader_knew_in_an_earlier_epoch() -> None:
    async def run() -> dict[TopicPartition, int]:
        leader = Leader()
        async with (
            wire_broker(leader.answer, {2: (1, 11), 3: (4, 12)}) as leader.address,
            Client("{}:{}".format(*leader.address)) as client,
        ):
            return await list_offsets(client, {AT: LATEST}, patience=PATIENCE)

    assert asyncio.run(run()) == {AT: 9}
