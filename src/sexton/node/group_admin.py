"""Groups for operators: described, listed and deleted, with their offsets.

DescribeGroups (versions 0 to 6), ConsumerGroupDescribe (0 to 1), ListGroups (0 to 5), DeleteGroups
(0 to 2) and OffsetDelete (0). Every broker answers for the groups that it coordinates. There are no
authorizations: a caller that asks which operations are allowed is told all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import group_messages as machine
from sexton.node.coordinators import CONSUMER_OFFSETS, Coordinators
from sexton.node.group_offsets import GroupOffsets
from sexton.node.groups import Groups
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages import consumer_group_describe as consumer
from sexton.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from sexton.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from sexton.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from sexton.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS, each the bit of its number.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


class GroupAdmin:
    def __init__(
        self, site: Site, coordinators: Coordinators, groups: Groups, offsets: GroupOffsets
    ) -> None:
        self._site = site
        self._coordinators = coordinators
        self._groups = groups
        self._offsets = offsets

    # ── looking ──

    def describe(self, caller: Caller, request: DescribeGroupsRequest, version: int) -> None:
        response = DescribeGroupsResponse()
        for group_id in request.groups:
            try:
                _, groups = self._groups.at(group_id)
                described = groups.describe(group_id, version)
            except Refused as refused:
                described = DescribedGroup(refused.error, group_id=group_id)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = ALL_OPERATIONS
            response.groups.append(described)
        self._site.outside.answer(caller, response)

    def describe_consumers(
        self, caller: Caller, request: consumer.ConsumerGroupDescribeRequest, _version: int
    ) -> None:
        response = consumer.ConsumerGroupDescribeResponse()
        for group_id in request.group_ids:
            try:
                if not group_id:
                    raise Refused(KafkaError.INVALID_GROUP_ID, "a group has a name")
                partition, groups = self._groups.at(group_id)
                self._groups.tell_topics(partition)
                described = groups.describe_consumers(group_id)
            except Refused as refused:
                described = consumer.DescribedGroup(refused.error, group_id=group_id)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = ALL_OPERATIONS
            response.groups.append(described)
        self._site.outside.answer(caller, response)

    def list(self, caller: Caller, request: ListGroupsRequest, _version: int) -> None:
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        response = ListGroupsResponse()
        if self._loading():
            response.error_code = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        else:
            response.groups = [
                found
                for groups in self._groups.machines.values()
                for found in groups.list()
                if (not states or found.group_state.lower() in states)
                and (not types or found.group_type.lower() in types)
            ]
        self._site.outside.answer(caller, response)

    def _loading(self) -> bool:
        for number in self._site.image.partitions_of(CONSUMER_OFFSETS):
            partition = TopicPartition(CONSUMER_OFFSETS, number)
            if partition not in self._groups.machines:
                try:
                    self._coordinators.replica(partition)
                except Refused:
                    continue
                return True
        return False

    # ── deleting ──

    def delete(self, caller: Caller, request: DeleteGroupsRequest, _version: int) -> None:
        results = dict.fromkeys(request.groups_names, KafkaError.NONE)
        left = len(results)

        def settled(group_id: str, error: KafkaError) -> None:
            nonlocal left
            left -= 1
            results[group_id] = error
            if left == 0:
                found = [DeletableGroupResult(name, error) for name, error in results.items()]
                self._site.outside.answer(caller, DeleteGroupsResponse(results=found))

        if not results:
            self._site.outside.answer(caller, DeleteGroupsResponse())
        for group_id in list(results):
            self._delete(group_id, settled)

    def _delete(self, group_id: str, settled: Callable[[str, KafkaError], None]) -> None:
        """The group and its offsets, both before anybody else is heard."""
        try:
            partition, groups = self._groups.at(group_id)
            if error := groups.may_delete(group_id):
                raise Refused(error, f"group {group_id} stays")
        except Refused as refused:
            settled(group_id, refused.error)
            return
        answers: list[KafkaError] = []

        def then(answer: machine.MemberResponse | KafkaError) -> None:
            assert isinstance(answer, KafkaError)
            answers.append(answer)
            if len(answers) == 2:
                settled(group_id, answers[0] or answers[1])

        self._offsets.delete_group(partition, group_id, then)
        self._groups.tell(partition, machine.DeleteGroup(then, group_id))

    def delete_offsets(self, caller: Caller, request: OffsetDeleteRequest, _version: int) -> None:
        known = [t for t in request.topics if t.name in self._site.image.topics]
        wanted = [TopicPartition(t.name, p.partition_index) for t in known for p in t.partitions]

        def finish(errors: dict[TopicPartition, KafkaError]) -> None:
            response = OffsetDeleteResponse()
            unknown = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            for topic in request.topics:
                answered = OffsetDeleteResponseTopic(topic.name)
                for one in topic.partitions:
                    at = TopicPartition(topic.name, one.partition_index)
                    error = errors.get(at, unknown)
                    answered.partitions.append(
                        OffsetDeleteResponsePartition(one.partition_index, error)
                    )
                response.topics.append(answered)
            self._site.outside.answer(caller, response)

        try:
            if request.topics and not known:
                finish({})
                return
            if not request.group_id:
                raise Refused(KafkaError.INVALID_GROUP_ID, "a group has a name")
            partition, groups = self._groups.at(request.group_id)
            if error := groups.may_delete_offsets(request.group_id):
                raise Refused(error, f"offsets of {request.group_id} are in use")
        except Refused as refused:
            self._site.outside.answer(caller, OffsetDeleteResponse(error_code=refused.error))
            return
        kept = [at for at in wanted if groups.is_subscribed(request.group_id, at.topic)]
        doomed = [at for at in wanted if at not in kept]
        subscribed = dict.fromkeys(kept, KafkaError.GROUP_SUBSCRIBED_TO_TOPIC)
        self._offsets.delete(
            partition, request.group_id, doomed, lambda errors: finish(subscribed | errors)
        )
