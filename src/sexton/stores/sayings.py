"""What instances tell each other through the group: copies when they join, shares when they sync.

Both are Kafka's own messages between consumers, with JSON in the field that is left to the
assignor, so that everybody's tools show a group of consumers with partitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sexton.machines.stores_assignment import Member, Share, TaskId
from sexton.protocol.coordinator.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from sexton.protocol.versioned import decode_versioned, encode_versioned

_VERSION = 3


@dataclass(slots=True)
class Claims:
    """What an instance says of itself when it joins."""

    tasks: dict[str, str]  # name -> input topic
    owned: list[TaskId]
    copies: dict[TaskId, int]  # verified: task -> position


@dataclass(frozen=True, slots=True)
class Said:
    instance: str
    topics: Mapping[str, str]
    member: Member


def encode_claims(claims: Claims, instance: str, generation: int) -> bytes:
    copies: dict[str, dict[str, int]] = {}
    for (task, partition), position in sorted(claims.copies.items()):
        copies.setdefault(task, {})[str(partition)] = position
    said = {
        "tasks": dict(sorted(claims.tasks.items())),
        "owned": [[task, partition] for task, partition in sorted(claims.owned)],
        "copies": copies,
        "instance": instance,
    }
    topics = sorted(set(claims.tasks.values()))
    told = ConsumerProtocolSubscription(topics, _json(said), generation_id=generation)
    return encode_versioned(told, _VERSION)


def decode_claims(member_id: str, metadata: bytes) -> Said:
    told = decode_versioned(ConsumerProtocolSubscription, metadata, from_the_future=True)
    said = json.loads(told.user_data or b"{}")
    copies = {
        TaskId(task, int(partition)): int(position)
        for task, some in said.get("copies", {}).items()
        for partition, position in some.items()
    }
    topics = dict(said.get("tasks", {}))
    owned = frozenset(_ids(said.get("owned", [])))
    member = Member(member_id, frozenset(topics), owned, told.generation_id, copies)
    return Said(str(said.get("instance", member_id)), topics, member)


def encode_share(share: Share, topics: Mapping[str, str]) -> bytes:
    inputs: dict[str, set[int]] = {}
    for task, partition in share.active:
        inputs.setdefault(topics.get(task, task), set()).add(partition)
    said = {
        name: [[task, partition] for task, partition in tasks]
        for name, tasks in (
            ("active", share.active),
            ("standby", share.standby),
            ("warming", share.warming),
        )
    }
    told = ConsumerProtocolAssignment(
        [
            ConsumerProtocolAssignmentTopicPartition(topic, sorted(numbers))
            for topic, numbers in sorted(inputs.items())
        ],
        _json(said),
    )
    return encode_versioned(told, _VERSION)


def decode_share(assignment: bytes) -> Share:
    if not assignment:
        return Share()
    told = decode_versioned(ConsumerProtocolAssignment, assignment, from_the_future=True)
    said = json.loads(told.user_data or b"{}")
    active, standby, warming = (
        list(_ids(said.get(name, []))) for name in ("active", "standby", "warming")
    )
    return Share(active, standby, warming)


def _ids(pairs: Iterable[tuple[str, int]]) -> Iterable[TaskId]:
    return (TaskId(task, int(partition)) for task, partition in pairs)


def _json(said: object) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()
