"""Whose commits count in a group whose assignments the coordinator makes?

Those of a member in its epoch. An earlier epoch is good enough for partitions that were the
member's own then, and have been ever since: a heartbeat that has overtaken a commit does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable

from sexton.base.kafka_errors import KafkaError
from sexton.machines.group_assignors import TopicId
from sexton.machines.group_consumer_state import GroupState, Member

EPOCHS_FROM = 9  # the version of OffsetCommit that says which epoch it means


def may_commit(
    state: GroupState,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    transactional: bool,
    version: int,
    partitions: Iterable[tuple[TopicId | None, int]],
) -> KafkaError:
    if epoch < 0 and not state.members:
        return KafkaError.NONE
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return KafkaError.NONE  # older producers do not say who they are
    member = state.members.get(member_id)
    if member is None:
        return KafkaError.UNKNOWN_MEMBER_ID
    if not transactional and version < EPOCHS_FROM:
        return KafkaError.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return KafkaError.NONE
    if epoch < member.epoch and all(
        _given_by(member, topic, partition, epoch) for topic, partition in partitions
    ):
        return KafkaError.NONE
    return KafkaError.STALE_MEMBER_EPOCH


def may_fetch(state: GroupState, member_id: str | None, epoch: int) -> KafkaError:
    if member_id is None and epoch < 0:
        return KafkaError.NONE
    member = state.members.get(member_id or "")
    if member is None:
        return KafkaError.UNKNOWN_MEMBER_ID
    return KafkaError.NONE if member.epoch == epoch else KafkaError.STALE_MEMBER_EPOCH


def _given_by(member: Member, topic: TopicId | None, partition: int, epoch: int) -> bool:
    if topic is None:
        return False
    for held in (member.assigned, member.revoking):
        given = held.get(topic, {}).get(partition)
        if given is not None:
            return given <= epoch
    return False
