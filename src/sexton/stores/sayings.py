"""What instances tell each other through the group: copies when they join, shares when they sync.

Both are Kafka's own messages between consumers, with JSON in the field that is left to the
assignor, so that everybody's tools show a group of consumers with partitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    lags: dict[TaskId, int] = field(default_factory=dict)  # of copies that follow the changelog


@dataclass(frozen=True, slots=True)
class Said:
    instance: str
    topics: Mapping[str, str]
    member: Member


def agreed(said: Sequence[Said]) -> tuple[dict[str, str], list[Member], list[str]]:
    """All tasks that anybody has code for with their inputs, who may have them, and what is wrong.

    Members may be of different versions, in a rolling deploy. Each gets what it has code for. Two
    tasks with one input would commit the same offsets of the group, so only one of them is shared:
    the one that somebody works on.
    """
    owned = {id_.task for each in said for id_ in each.member.owned}
    ordered = sorted(said, key=lambda each: each.member.name)
    inputs: dict[str, str] = {}
    wrong: list[str] = []
    for name in sorted({task for each in said for task in each.topics}):
        told = {each.topics[name]: None for each in _owners_first(ordered, name)}
        inputs[name], *others = told
        if others:
            wrong.append(f"{name} reads {inputs[name]} here and {', '.join(others)} there")
    tasks: dict[str, str] = {}  # input -> task
    for name in sorted(inputs, key=lambda name: (name not in owned, name)):
        first = tasks.setdefault(inputs[name], name)
        if first != name:
            wrong.append(f"{first} and {name} both read {inputs[name]}: {name} gets no work")
    shared = {name: topic for topic, name in sorted(tasks.items())}
    members = [
        replace(
            each.member,
            tasks=frozenset(n for n, topic in each.topics.items() if shared.get(n) == topic),
        )
        for each in said
    ]
    return shared, members, wrong


def _owners_first(said: Iterable[Said], task: str) -> list[Said]:
    able = [each for each in said if task in each.topics]
    return sorted(able, key=lambda each: all(id_.task != task for id_ in each.member.owned))


def encode_claims(claims: Claims, instance: str, generation: int) -> bytes:
    said = {
        "tasks": dict(sorted(claims.tasks.items())),
        "owned": [[task, partition] for task, partition in sorted(claims.owned)],
        "copies": _by_task(claims.copies),
        "lags": _by_task(claims.lags),
        "instance": instance,
    }
    topics = sorted(set(claims.tasks.values()))
    told = ConsumerProtocolSubscription(topics, _json(said), generation_id=generation)
    return encode_versioned(told, _VERSION)


def decode_claims(member_id: str, metadata: bytes) -> Said:
    told = decode_versioned(ConsumerProtocolSubscription, metadata, from_the_future=True)
    said = json.loads(told.user_data or b"{}")
    copies, lags = _by_id(said.get("copies", {})), _by_id(said.get("lags", {}))
    topics = dict(said.get("tasks", {}))
    owned = frozenset(_ids(said.get("owned", [])))
    member = Member(member_id, frozenset(topics), owned, told.generation_id, copies, lags)
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


def _by_task(numbers: Mapping[TaskId, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (task, partition), number in sorted(numbers.items()):
        found.setdefault(task, {})[str(partition)] = number
    return found


def _by_id(numbers: Mapping[str, Mapping[str, int]]) -> dict[TaskId, int]:
    return {
        TaskId(task, int(partition)): int(number)
        for task, some in numbers.items()
        for partition, number in some.items()
    }


def _ids(pairs: Iterable[tuple[str, int]]) -> Iterable[TaskId]:
    return (TaskId(task, int(partition)) for task, partition in pairs)


def _json(said: object) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()
