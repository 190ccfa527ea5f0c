"""What an operator sees of groups: DescribeGroups, ConsumerGroupDescribe, ListGroups."""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.machines.group_assignors import Partitions, TopicId
from sexton.machines.group_classic import ClassicGroup
from sexton.machines.group_classic_members import State
from sexton.machines.group_consumer import ConsumerGroup
from sexton.machines.group_messages import Topic
from sexton.protocol.messages import consumer_group_describe as consumer
from sexton.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from sexton.protocol.messages.list_groups import ListedGroup

CLASSIC_TYPE, CONSUMER_TYPE = "classic", "consumer"
USES_CONSUMER_PROTOCOL = 1  # a member's type
ERRORS_FROM = 6  # the version of DescribeGroups that says that there is no such group
NOT_FOUND = KafkaError.GROUP_ID_NOT_FOUND

AnyGroup = ClassicGroup | ConsumerGroup


def described(group_id: str, group: AnyGroup | None, version: int) -> DescribedGroup:
    if not isinstance(group, ClassicGroup):
        answer = DescribedGroup(group_id=group_id, group_state="Dead")
        if version >= ERRORS_FROM:
            answer.error_code = NOT_FOUND
            answer.error_message = f"Group {group_id} not found."
            if group is not None:
                answer.error_message = f"Group {group_id} is not a classic group."
        return answer
    stable = group.state is State.STABLE
    members = [
        DescribedGroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(group.protocol) if stable else b"",
            member.assignment,
        )
        for member in group.members.by_id.values()
    ]
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.members.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=members,
    )


def consumer_described(
    group_id: str, group: AnyGroup | None, assignor: str, topics: dict[str, Topic]
) -> consumer.DescribedGroup:
    if not isinstance(group, ConsumerGroup):
        what = "not found" if group is None else "is not a consumer group"
        message = f"Group {group_id} {what}."
        return consumer.DescribedGroup(NOT_FOUND, message, group_id=group_id)
    state = group.durable
    names = {topic.topic_id: name for name, topic in topics.items()}
    members = []
    for member in state.members.values():
        has = {  # with what it has not let go of yet
            topic: tuple(sorted({*member.assigned.get(topic, ()), *member.revoking.get(topic, ())}))
            for topic in sorted({*member.assigned, *member.revoking})
        }
        members.append(
            consumer.Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=list(member.topics),
                subscribed_topic_regex=member.regex,
                assignment=_assignment(has, names),
                target_assignment=_assignment(state.targets.get(member.member_id, {}), names),
                member_type=USES_CONSUMER_PROTOCOL,
            )
        )
    return consumer.DescribedGroup(
        group_id=group_id,
        group_state=state.name,
        group_epoch=state.epoch,
        assignment_epoch=state.target_epoch,
        assignor_name=state.preferred_assignor() or assignor,
        members=members,
    )


def _assignment(partitions: Partitions, names: dict[TopicId, str]) -> consumer.Assignment:
    return consumer.Assignment(
        [
            consumer.TopicPartitions(topic, names[topic], list(numbers))
            for topic, numbers in partitions.items()
            if topic in names
        ]
    )


def listed(group: AnyGroup) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.group_id, "consumer", group.durable.name, CONSUMER_TYPE)
    kind = group.members.protocol_type or ""
    return ListedGroup(group.group_id, kind, group.state.value, CLASSIC_TYPE)
