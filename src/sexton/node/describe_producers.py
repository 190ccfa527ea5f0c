"""DescribeProducers: what a partition's log knows of its producers (KIP-664).

Version 0; every replica answers, the leader or not. A transaction that hangs is found by it: its
producer has one open, and no coordinator knows of it.
"""

from __future__ import annotations

from sexton.base.errors import Refused
from sexton.base.partitions import TopicPartition
from sexton.machines.topics import check_spelling
from sexton.node.outside import Caller
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


class DescribeProducers:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas

    def handle(self, caller: Caller, request: DescribeProducersRequest, _version: int) -> None:
        response = DescribeProducersResponse()
        for topic in request.topics:
            partitions = [
                self._describe(TopicPartition(topic.name, number))
                for number in topic.partition_indexes
            ]
            response.topics.append(TopicResponse(topic.name, partitions))
        self._site.outside.answer(caller, response)

    def _describe(self, at: TopicPartition) -> PartitionResponse:
        try:
            check_spelling(at.topic)
            replica = self._replicas.get(at)
        except Refused as refused:
            return PartitionResponse(at.partition, refused.error, refused.why)
        states = [
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=-1
                if producer.open_first_offset is None
                else producer.open_first_offset,
            )
            for producer in replica.log.producers.known.values()
        ]
        return PartitionResponse(at.partition, active_producers=states)
