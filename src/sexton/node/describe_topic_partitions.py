"""DescribeTopicPartitions: topics and their partitions, page by page (KIP-966).

Version 0. Topics come in the order of their names; a page ends at a partition, and the cursor says
where the next one begins. Gap: there are no eligible leader replicas beyond the ISR, so both lists
of them are empty.
"""

from __future__ import annotations

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.metadata import NO_LEADER, Image, PartitionRecord
from sexton.machines.topics import check_spelling
from sexton.node.coordinators import INTERNAL_TOPICS
from sexton.node.metadata import TOPIC_OPERATIONS, is_internal, is_living, offline
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
)

LARGEST_PAGE = 2000  # partitions; Kafka's max.request.partition.size.limit


class DescribeTopicPartitions:
    def __init__(self, site: Site) -> None:
        self._site = site

    def handle(
        self, caller: Caller, request: DescribeTopicPartitionsRequest, _version: int
    ) -> None:
        cursor = request.cursor or RequestCursor("", 0)
        wanted = sorted({topic.name for topic in request.topics}) or sorted(self._site.image.topics)
        left = [name for name in wanted if name >= cursor.topic_name]
        astray = bool(request.topics) and cursor.topic_name and cursor.topic_name not in left
        if cursor.partition_index < 0 or astray:
            response = DescribeTopicPartitionsResponse(
                topics=[
                    DescribeTopicPartitionsResponseTopic(KafkaError.INVALID_REQUEST, topic.name)
                    for topic in request.topics
                ]
            )
        else:
            limit = max(min(request.response_partition_limit, LARGEST_PAGE), 1)
            response = self._page(left, cursor, limit)
        self._site.outside.answer(caller, response)

    def _page(
        self, names: list[str], cursor: RequestCursor, limit: int
    ) -> DescribeTopicPartitionsResponse:
        response = DescribeTopicPartitionsResponse()
        for name in names:
            first = cursor.partition_index if name == cursor.topic_name else 0
            if limit == 0:
                response.next_cursor = ResponseCursor(name, first)
                return response
            topic = self._topic(name, first, limit)
            response.topics.append(topic)
            limit -= len(topic.partitions)
            count = len(self._site.image.partitions_of(name))
            if first + len(topic.partitions) < count:
                response.next_cursor = ResponseCursor(name, first + len(topic.partitions))
                return response
        return response

    def _topic(self, name: str, first: int, limit: int) -> DescribeTopicPartitionsResponseTopic:
        image = self._site.image
        topic = image.topics.get(name)
        if topic is None:
            try:
                check_spelling(name)
            except Refused as refused:
                return _failed(name, refused.error)
            return _failed(name, KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = sorted(image.partitions_of(name).items())[first : first + limit]
        return DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=bytes.fromhex(topic.topic_id),
            is_internal=is_internal(topic),
            partitions=[_partition(image, partition) for _, partition in partitions],
            topic_authorized_operations=TOPIC_OPERATIONS,
        )


def _failed(name: str, error: KafkaError) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error,
        name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    image: Image, partition: PartitionRecord
) -> DescribeTopicPartitionsResponsePartition:
    led = partition.leader != NO_LEADER and is_living(image, partition.leader)
    return DescribeTopicPartitionsResponsePartition(
        error_code=KafkaError.NONE if led else KafkaError.LEADER_NOT_AVAILABLE,
        partition_index=partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=offline(image, partition),
    )
