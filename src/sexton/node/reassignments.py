"""Replicas move between brokers (KIP-455).

AlterPartitionReassignments, versions 0 to 1, and ListPartitionReassignments, version 0. The answer
to the first says that the way there has begun; the second shows which partitions are still on it.
No replicas instead of some cancels what is under way.
"""

from __future__ import annotations

from collections.abc import Sequence

from sexton.base.partitions import TopicPartition
from sexton.machines import controller_events as controller
from sexton.node.administration import Administration, outcome
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from sexton.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class Reassignments:
    def __init__(self, site: Site, administration: Administration) -> None:
        self._site = site
        self._administration = administration

    def alter(
        self, caller: Caller, request: AlterPartitionReassignmentsRequest, _version: int
    ) -> None:
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
        )
        wanted: list[ReassignablePartitionResponse] = []
        events: list[controller.Request] = []
        for topic in request.topics:
            result = ReassignableTopicResponse(topic.name)
            response.responses.append(result)
            for partition in topic.partitions:
                one = ReassignablePartitionResponse(partition.partition_index, error_message=None)
                result.partitions.append(one)
                wanted.append(one)
                replicas = None if partition.replicas is None else tuple(partition.replicas)
                events.append(
                    controller.Reassign(
                        None, topic.name, partition.partition_index, replicas,
                        request.allow_replication_factor_change,
                    )
                )  # fmt: skip

        def told(answers: Sequence[controller.AnswerBody]) -> None:
            for one, answer in zip(wanted, answers, strict=True):
                one.error_code, one.error_message = outcome(answer)
            self._site.outside.answer(caller, response)

        self._administration.ask(events, told, request.timeout_ms)

    def list(
        self, caller: Caller, request: ListPartitionReassignmentsRequest, _version: int
    ) -> None:
        image = self._site.image
        asked = sorted(image.partitions)
        if request.topics is not None:
            asked = [
                TopicPartition(topic.name, number)
                for topic in request.topics
                for number in topic.partition_indexes
            ]
        topics: dict[str, OngoingTopicReassignment] = {}
        for at in asked:
            partition = image.partitions.get(at)
            if partition is None or not partition.reassigning:
                continue
            topic = topics.setdefault(at.topic, OngoingTopicReassignment(at.topic))
            topic.partitions.append(
                OngoingPartitionReassignment(
                    at.partition, list(partition.replicas), list(partition.adding),
                    list(partition.removing),
                )
            )  # fmt: skip
        response = ListPartitionReassignmentsResponse(
            error_message=None, topics=list(topics.values())
        )
        self._site.outside.answer(caller, response)
