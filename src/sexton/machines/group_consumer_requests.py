"""What does a member say with a ConsumerGroupHeartbeat, and may it say that?

What it leaves out is as it was. A member that joins, or has missed an answer, says everything, and
is told everything.
"""

from __future__ import annotations

from dataclasses import replace

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.group_consumer_state import LEAVING, LEAVING_STATIC, Held, Member
from sexton.machines.group_messages import Client
from sexton.machines.group_reconcile import Owned
from sexton.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ResponseTopicPartitions,
)

MEMBER_ID_FROM = 1  # the version in which members make their own ids


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Raises Refused if nobody would say such a thing, as Kafka 4.3 does, word for word."""
    epoch = request.member_epoch
    wrong = None
    if not request.member_id and (version >= MEMBER_ID_FROM or epoch > 0 or epoch == LEAVING):
        wrong = "MemberId can't be empty."
    elif not request.group_id:
        wrong = "GroupId can't be empty."
    elif request.instance_id == "":
        wrong = "InstanceId can't be empty."
    elif request.rack_id == "":
        wrong = "RackId can't be empty."
    elif epoch == 0 and request.rebalance_timeout_ms == -1:
        wrong = "RebalanceTimeoutMs must be provided in first request."
    elif epoch == 0 and request.topic_partitions != []:
        wrong = "TopicPartitions must be empty when (re-)joining."
    elif epoch == 0 and (
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None
    ):
        wrong = (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    elif epoch == LEAVING_STATIC and request.instance_id is None:
        wrong = "InstanceId can't be null."
    elif epoch < LEAVING_STATIC:
        wrong = "MemberEpoch is invalid."
    if wrong is not None:
        raise Refused(KafkaError.INVALID_REQUEST, wrong)
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        why = (
            f"ServerAssignor {assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}."
        )
        raise Refused(KafkaError.UNSUPPORTED_ASSIGNOR, why)


def check_epoch(member: Member, request: ConsumerGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    if epoch in (0, member.epoch):
        return
    if epoch == member.previous_epoch and epoch < member.epoch:
        has = owned(request)
        if has is not None and all(
            ps <= member.assigned.get(topic, {}).keys() for topic, ps in has.items()
        ):
            return  # it has not heard of the new epoch, and has nothing that it should not
    which = "greater" if epoch > member.epoch else "smaller"
    why = (
        f"The consumer group member has a {which} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin."
    )
    raise Refused(KafkaError.FENCED_MEMBER_EPOCH, why)


def updated(member: Member, client: Client, request: ConsumerGroupHeartbeatRequest) -> Member:
    """What the request does not say stays as it is."""
    topics, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    waits_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        topics=member.topics if topics is None else tuple(sorted(set(topics))),
        regex=member.regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if waits_ms == -1 else waits_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
    )


def owned(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    return {bytes(t.topic_id): frozenset(t.partitions) for t in request.topic_partitions}


def wants_all(request: ConsumerGroupHeartbeatRequest) -> bool:
    """The member joins, or says everything because it does not know whether it was heard."""
    subscribes = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    says_all = subscribes and request.topic_partitions is not None
    return request.member_epoch == 0 or (request.rebalance_timeout_ms != -1 and says_all)


def assignment(held: Held) -> Assignment:
    return Assignment([ResponseTopicPartitions(topic, list(ps)) for topic, ps in held.items()])
