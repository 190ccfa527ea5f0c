"""Does our group coordinator do what Apache Kafka's does?

Each story is told to both over the same protocol, to Kafka and to one broker of ours, request by
request; every answer must be the same, field by field. Only what nobody can know is put aside: the
ids that a coordinator makes up (they become the names that the story has for their members), topic
ids (they become the topics' names), and the order of lists that have none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from random import Random
from typing import Any

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.machines import group_log
from sexton.machines.group_messages import GroupConfig, Load, Topic, TopicsAre
from sexton.machines.groups import Groups
from sexton.protocol import decode_response, encode_request
from sexton.protocol.coordinator.consumer_protocol import ConsumerProtocolSubscription
from sexton.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sexton.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sexton.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)
from sexton.protocol.messages.delete_groups import DeleteGroupsRequest
from sexton.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.heartbeat import HeartbeatRequest
from sexton.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from sexton.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sexton.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sexton.protocol.messages.list_groups import ListGroupsRequest
from sexton.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from sexton.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sexton.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from sexton.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sexton.protocol.registry import find
from sexton.protocol.versioned import encode_versioned
from sexton.records import decode
from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.handmade import split
from tests.kafka_connection import GROUP, TRANSACTION, Connection

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

TOPICS = {"group-orders": 4, "group-audit": 2}
ORDERS, AUDIT = TOPICS
UNORDERED = ("groups", "members", "results", "topics", "topic_partitions", "partitions")
FETCH_ALL = None


class Speaker(Connection):
    """Who may ask now and hear the answer later, as somebody who joins."""

    def begin(self, request: Any, version: int) -> None:
        self.sent += 1
        self.request, self.version = request, version
        self.socket.sendall(encode_request(request, version, self.sent, "sexton"))

    def finish(self) -> Any:
        api = find(self.request.API_KEY)
        assert api is not None
        (size,) = struct.unpack(">i", self.stream.read(4))
        correlation_id, response = decode_response(
            api.response, self.stream.read(size), self.version
        )
        assert correlation_id == self.sent
        return response


@dataclass
class Side:
    """A coordinator, and the members that the story has there."""

    address: str
    speakers: dict[str, Speaker] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)  # name -> member id
    told: list[Any] = field(default_factory=list)
    topic_ids: dict[str, bytes] = field(default_factory=dict)

    def __enter__(self) -> Side:
        with Speaker(self.address) as first:
            until(lambda: first.has_coordinator("any", GROUP), "a group coordinator")
            until(lambda: _is_loaded(first), "its log to be read")
            topics = [MetadataRequestTopic(name=name) for name in TOPICS]
            answer = first.send(MetadataRequest(topics), 12, MetadataResponse)
            self.topic_ids = {topic.name or "": topic.topic_id for topic in answer.topics}
        return self

    def __exit__(self, *_: object) -> None:
        for speaker in self.speakers.values():
            speaker.__exit__()

    @property
    def operator(self) -> Speaker:
        if "operator" not in self.speakers:
            self.speakers["operator"] = Speaker(self.address)
        return self.speakers["operator"]

    # ── asking ──

    def begin(self, name: str, request: Any, version: int) -> None:
        if name not in self.speakers:
            self.speakers[name] = Speaker(self.address)
        self.speakers[name].begin(request, version)

    def finish(self, name: str) -> Any:
        response = self.speakers[name].finish()
        if getattr(response, "member_id", None):
            self.ids[name] = response.member_id
        self.told.append((name, type(response).__name__, response))
        return response

    def ask(self, name: str, request: Any, version: int) -> Any:
        self.begin(name, request, version)
        return self.finish(name)

    def until_it_says(self, error: KafkaError, name: str, request: Any, version: int) -> None:
        """The answer that comes in the end: Kafka may take a moment for what ours does at once."""

        def said() -> bool:
            self.begin(name, request, version)
            response = self.speakers[name].finish()
            return bool(response.error_code == error)

        until(said, error.name)
        self.told.append((name, error.name, None))

    # ── what is the same ──

    def normal(self, value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            return {
                f.name: self._field(f.name, getattr(value, f.name))
                for f in fields(value)
                if f.name not in ("throttle_time_ms", "client_host")
            }
        if isinstance(value, list):
            return [self.normal(each) for each in value]
        if isinstance(value, str):
            return self.named(value)
        if isinstance(value, bytes):
            by_id = {topic_id: name for name, topic_id in self.topic_ids.items()}
            return by_id.get(value, value)
        return value

    def _field(self, name: str, value: Any) -> Any:
        found = self.normal(value)
        if name in UNORDERED and isinstance(found, list):
            return sorted(found, key=repr)
        return found

    def named(self, text: str) -> str:
        for name, member_id in self.ids.items():
            if len(member_id) > 36 and member_id in text:
                text = text.replace(member_id, f"<{name}>")
        return text


def _is_loaded(speaker: Speaker) -> bool:
    answer = speaker.send(DescribeGroupsRequest(["any"]), 5, DescribeGroupsResponse)
    return not answer.groups[0].error_code


# ── requests, in few words ──


def join(
    side: Side,
    name: str,
    group: str,
    *,
    instance: str | None = None,
    protocols: tuple[str, ...] = ("range",),
    kind: str = "consumer",
    session_ms: int = 10_000,
    member_id: str | None = None,
    topics: tuple[str, ...] = (ORDERS,),
) -> JoinGroupRequest:
    metadata = encode_versioned(ConsumerProtocolSubscription(list(topics)), 1)
    known = side.ids.get(name, "") if member_id is None else member_id
    return JoinGroupRequest(
        group,
        session_ms,
        60_000,
        known,
        instance,
        kind,
        [JoinGroupRequestProtocol(protocol, metadata) for protocol in protocols],
    )


def enter(side: Side, name: str, group: str, **how: Any) -> None:
    """Both rounds of a dynamic member's JoinGroup; the answer to the second is still to come."""
    side.ask(name, join(side, name, group, **how), 9)
    side.begin(name, join(side, name, group, **how), 9)


def sync(
    side: Side,
    name: str,
    group: str,
    generation: int,
    given: dict[str, bytes] | None = None,
    protocol: str = "range",
) -> SyncGroupRequest:
    assignments = [
        SyncGroupRequestAssignment(side.ids[who], what) for who, what in (given or {}).items()
    ]
    return SyncGroupRequest(
        group, generation, side.ids[name], None, "consumer", protocol, assignments
    )


def beat(side: Side, name: str, group: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(group, generation, side.ids.get(name, name))


def commit(
    side: Side,
    member_id: str,
    group: str,
    generation: int,
    *,
    topic: str = ORDERS,
    partition: int = 0,
    offset: int = 5,
    by_id: bool = False,
) -> OffsetCommitRequest:
    one = OffsetCommitRequestPartition(partition, offset, -1, "kept")
    name = "" if by_id else topic
    topic_id = side.topic_ids.get(topic, b"\1" * 16) if by_id else bytes(16)
    wanted = OffsetCommitRequestTopic(name, topic_id, [one])
    return OffsetCommitRequest(group, generation, member_id, topics=[wanted])


def fetch(
    side: Side,
    group: str,
    version: int,
    member_id: str | None = None,
    epoch: int = -1,
    topics: tuple[str, ...] | None = (ORDERS,),
) -> OffsetFetchRequest:
    if version < 8:
        old = None if topics is None else [OffsetFetchRequestTopic(t, [0, 1]) for t in topics]
        return OffsetFetchRequest(group, old)
    wanted = None
    if topics is not None:
        wanted = [
            OffsetFetchRequestTopics("", side.topic_ids.get(t, b"\1" * 16), [0, 1])
            if version >= 10
            else OffsetFetchRequestTopics(t, bytes(16), [0, 1])
            for t in topics
        ]
    one = OffsetFetchRequestGroup(group, member_id, epoch, wanted)
    return OffsetFetchRequest(groups=[one])


def look(side: Side, group: str) -> None:
    """All that an operator can see of it."""
    for version in (0, 4, 5, 6):
        side.ask("operator", DescribeGroupsRequest([group]), version)
    side.ask("operator", DescribeGroupsRequest([group], True), 6)
    for version in (0, 1):
        side.ask("operator", ConsumerGroupDescribeRequest([group], bool(version)), version)
    side.begin("operator", ListGroupsRequest(), 5)
    listed = [one for one in side.speakers["operator"].finish().groups if one.group_id == group]
    side.told.append(("operator", "listed", listed))


def delete_offsets(group: str, topic: str = ORDERS) -> OffsetDeleteRequest:
    one = OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])
    return OffsetDeleteRequest(group, [one])


def heartbeat(
    side: Side,
    name: str,
    group: str,
    epoch: int,
    *,
    topics: tuple[str, ...] | None = None,
    owned: dict[str, list[int]] | None = None,
    **more: Any,
) -> ConsumerGroupHeartbeatRequest:
    """The consumer protocol; the member's name is its id."""
    joins = epoch == 0
    if joins and owned is None:
        owned = {}
    partitions = None
    if owned is not None:
        partitions = [RequestTopicPartitions(side.topic_ids[t], ps) for t, ps in owned.items()]
    return ConsumerGroupHeartbeatRequest(
        group,
        name,
        epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=None if topics is None else list(topics),
        topic_partitions=partitions,
        **more,
    )


# ── the stories ──


def rounds(side: Side, group: str) -> None:
    """Two members join, assign, commit, and leave."""
    look(side, group)
    enter(side, "a", group)
    side.finish("a")
    look(side, group)
    side.ask("a", beat(side, "a", group, 1), 4)
    side.ask("a", commit(side, side.ids["a"], group, 1), 9)
    side.ask("a", sync(side, "a", group, 1, {"a": b"all"}), 5)
    side.ask("a", commit(side, side.ids["a"], group, 1), 9)
    look(side, group)
    enter(side, "b", group)
    side.until_it_says(KafkaError.REBALANCE_IN_PROGRESS, "a", beat(side, "a", group, 1), 4)
    look(side, group)
    side.ask("a", commit(side, side.ids["a"], group, 1, offset=6), 8)
    side.ask("operator", delete_offsets(group), 0)
    side.ask("a", join(side, "a", group), 9)
    side.finish("b")
    side.begin("b", sync(side, "b", group, 2), 5)
    side.ask("a", sync(side, "a", group, 2, {"a": b"left", "b": b"right"}), 5)
    side.finish("b")
    look(side, group)
    # Who follows joins again with nothing new, and nothing happens.
    side.ask("b", join(side, "b", group), 9)
    side.ask("b", join(side, "b", group), 5)
    side.ask("b", sync(side, "b", group, 2), 5)
    for generation in (1, 2, 3, -1):
        for version in (2, 7, 8, 9):
            side.ask("b", commit(side, side.ids["b"], group, generation), version)
            side.ask("b", commit(side, "", group, generation), version)
    side.ask("b", commit(side, side.ids["b"], group, 2, by_id=True, offset=8), 10)
    side.ask("b", commit(side, side.ids["b"], group, 2, topic="missing", by_id=True), 10)
    for version in range(1, 11):
        side.ask("operator", fetch(side, group, version), version)
        side.ask("operator", fetch(side, group, version, topics=("missing",)), version)
    for version in (2, 5, 8, 9, 10):
        side.ask("operator", fetch(side, group, version, topics=FETCH_ALL), version)
    side.ask("operator", fetch(side, group, 9, side.ids["b"], 2), 9)
    side.ask("operator", delete_offsets(group), 0)
    side.ask("operator", delete_offsets(group, AUDIT), 0)
    side.ask("operator", delete_offsets(group, "missing"), 0)
    side.ask("operator", DeleteGroupsRequest([group, "no-such-group"]), 2)
    side.ask("a", LeaveGroupRequest(group, members=[MemberIdentity(side.ids["a"])]), 5)
    side.ask("a", LeaveGroupRequest(group, members=[MemberIdentity(side.ids["a"])]), 5)
    side.ask("b", LeaveGroupRequest(group, side.ids["b"]), 2)
    side.ask("b", LeaveGroupRequest(group, side.ids["b"]), 0)
    look(side, group)
    side.ask("operator", commit(side, "", group, -1, offset=1), 9)
    side.ask("operator", fetch(side, group, 9), 9)
    side.ask("operator", delete_offsets(group), 0)
    side.ask("operator", fetch(side, group, 9), 9)
    side.ask("operator", DeleteGroupsRequest([group]), 2)
    look(side, group)


def refusals(side: Side, group: str) -> None:
    """What is not possible, in every version."""
    for version in range(10):
        side.ask("x", join(side, "x", group, member_id="invented"), version)
        side.ask("x", join(side, "x", group, session_ms=1), version)
        side.ask("x", join(side, "x", "", member_id=""), version)
        side.ask("x", join(side, "x", group, protocols=(), member_id=""), version)
    for version in range(6):
        side.ask("x", SyncGroupRequest(group, 1, "nobody"), version)
        side.ask("x", SyncGroupRequest("", 1, "nobody"), version)
        side.ask("x", SyncGroupRequest(group, 1, "nobody", None, "consumer", "range"), version)
    for version in range(5):
        side.ask("x", HeartbeatRequest(group, 1, "nobody"), version)
        side.ask("x", HeartbeatRequest("", 1, "nobody"), version)
    for version in range(6):
        request = LeaveGroupRequest(group, "nobody")
        if version >= 3:
            request = LeaveGroupRequest(group, members=[MemberIdentity("nobody")])
        side.ask("x", request, version)
    for version in (7, 8, 9):
        side.ask("x", commit(side, "nobody", "no-such-group", 4), version)
    side.ask("operator", delete_offsets("no-such-group"), 0)
    side.ask("operator", delete_offsets(""), 0)
    side.ask("operator", fetch(side, "no-such-group", 9, "nobody", 3), 9)
    # Somebody who is there, and others who do not fit.
    enter(side, "a", group, protocols=("range", "sticky"))
    side.finish("a")
    side.ask("x", join(side, "x", group, member_id="", kind="connect"), 9)
    side.ask("x", join(side, "x", group, member_id="", protocols=("other",)), 9)
    side.ask("x", join(side, "x", group, member_id="invented"), 9)
    side.ask("x", join(side, "x", group, member_id="invented", instance="one"), 9)
    side.ask("x", SyncGroupRequest(group, 1, side.ids["a"], None, "connect", "range"), 5)
    side.ask("x", SyncGroupRequest(group, 1, side.ids["a"], None, "consumer", "sticky"), 5)
    side.ask("x", SyncGroupRequest(group, 9, side.ids["a"]), 4)
    side.ask("x", SyncGroupRequest(group, 1, "nobody"), 4)
    side.ask("x", beat(side, "a", group, 9), 4)
    side.ask("a", join(side, "a", group, protocols=("range", "sticky")), 9)
    side.ask("a", sync(side, "a", group, 1, {"a": b"all"}), 5)
    side.ask("x", heartbeat(side, "x", group, 3), 1)
    side.ask("x", heartbeat(side, "x", group, -1), 1)
    side.ask("a", LeaveGroupRequest(group, members=[MemberIdentity(side.ids["a"])]), 5)
    side.ask("x", SyncGroupRequest(group, 1, "nobody"), 4)
    side.ask("x", HeartbeatRequest(group, 1, "nobody"), 4)
    side.ask("operator", DeleteGroupsRequest([group]), 1)


def static_members(side: Side, group: str) -> None:
    """They keep their place, and fence who was there before."""
    side.ask("a", join(side, "a", group, instance="one"), 9)
    side.ask("a", sync(side, "a", group, 1, {"a": b"all"}), 5)
    side.begin("b", join(side, "b", group, instance="two"), 9)
    side.until_it_says(KafkaError.REBALANCE_IN_PROGRESS, "a", beat(side, "a", group, 1), 4)
    side.ask("a", join(side, "a", group, instance="one"), 9)
    side.finish("b")
    side.ask("a", sync(side, "a", group, 2, {"a": b"left", "b": b"right"}), 5)
    side.ask("b", sync(side, "b", group, 2), 5)
    side.ask("b2", join(side, "b2", group, instance="two"), 9)
    side.ask("b2", sync(side, "b2", group, 2), 5)
    side.ask("b", HeartbeatRequest(group, 2, side.ids["b"], "two"), 4)
    side.ask("b", HeartbeatRequest(group, 2, side.ids["b"]), 4)
    side.ask("b2", HeartbeatRequest(group, 2, side.ids["b2"], "two"), 4)
    side.ask("a2", join(side, "a2", group, instance="one"), 9)
    side.ask("a3", join(side, "a3", group, instance="one"), 6)
    side.ask("a3", sync(side, "a3", group, 2), 5)
    look(side, group)
    old = commit(side, side.ids["b"], group, 2)
    old.group_instance_id = "two"
    side.ask("b", old, 9)
    leaving = [MemberIdentity(side.ids["b"], "two"), MemberIdentity("", "two")]
    side.ask("operator", LeaveGroupRequest(group, members=leaving), 5)
    leaving = [MemberIdentity("", "one"), MemberIdentity("", "three"), MemberIdentity("")]
    side.ask("operator", LeaveGroupRequest(group, members=leaving), 5)
    look(side, group)


def consumers(side: Side, group: str) -> None:
    """KIP-848: two members, and a partition that moves after it was revoked."""
    side.ask("a", heartbeat(side, "a", group, 0, topics=(ORDERS,)), 1)
    look(side, group)
    side.ask("a", heartbeat(side, "a", group, 2), 1)
    side.ask("a", commit(side, "a", group, 2), 9)
    side.ask("b", heartbeat(side, "b", group, 0, topics=(ORDERS,)), 1)
    look(side, group)
    side.ask("a", heartbeat(side, "a", group, 2), 1)
    look(side, group)
    side.ask("b", heartbeat(side, "b", group, 3), 1)
    side.ask("a", heartbeat(side, "a", group, 2, owned={ORDERS: [0, 1, 2, 3]}), 1)
    side.ask("a", heartbeat(side, "a", group, 2, owned=assigned_to(side, "a", group)), 1)
    side.ask("b", heartbeat(side, "b", group, 3), 1)
    look(side, group)
    for member_id in ("a", "b", "nobody", ""):
        for epoch in (-1, 0, 1, 2, 3, 4):
            for partition in (0, 3):
                request = commit(side, member_id, group, epoch, partition=partition)
                side.ask(member_id, request, 9)
            side.ask(member_id, fetch(side, group, 9, member_id, epoch), 9)
    side.ask("a", commit(side, "a", group, 3), 8)
    side.ask("a", commit(side, "a", group, 3, by_id=True), 10)
    side.ask("a", fetch(side, group, 8), 8)
    side.ask("operator", fetch(side, group, 10, None, -1), 10)
    side.ask("a", heartbeat(side, "a", group, 3, topics=(AUDIT,)), 1)
    look(side, group)
    side.ask("operator", delete_offsets(group), 0)
    side.ask("operator", DeleteGroupsRequest([group]), 2)
    side.ask("b", heartbeat(side, "b", group, -1), 1)
    look(side, group)
    side.ask("x", HeartbeatRequest(group, 1, "a"), 4)
    side.ask("x", SyncGroupRequest(group, 1, "a"), 4)
    side.ask("x", LeaveGroupRequest(group, members=[MemberIdentity("nobody")]), 5)
    side.ask("x", LeaveGroupRequest(group, members=[MemberIdentity("a")]), 5)
    look(side, group)
    side.ask("operator", commit(side, "", group, -1), 9)
    side.ask("operator", DeleteGroupsRequest([group]), 2)
    look(side, group)


def assigned_to(side: Side, name: str, group: str) -> dict[str, list[int]]:
    """What its target is, and it has let go of the rest."""
    side.begin("operator", ConsumerGroupDescribeRequest([group]), 1)
    (found,) = side.speakers["operator"].finish().groups
    (member,) = [member for member in found.members if member.member_id == name]
    return {t.topic_name: t.partitions for t in member.target_assignment.topic_partitions}


def consumer_refusals(side: Side, group: str) -> None:
    both = (ORDERS, AUDIT)
    side.ask("a", heartbeat(side, "a", group, 1), 1)
    side.ask("a", heartbeat(side, "a", group, -1), 1)
    side.ask("a", heartbeat(side, "a", group, 0), 1)
    side.ask("a", heartbeat(side, "", group, 0, topics=both), 1)
    side.ask("a", heartbeat(side, "a", "", 0, topics=both), 1)
    side.ask("a", heartbeat(side, "a", group, 0, topics=both, instance_id=""), 1)
    side.ask("a", heartbeat(side, "a", group, 0, topics=both, rack_id=""), 1)
    side.ask("a", heartbeat(side, "a", group, 0, topics=both, server_assignor="best"), 1)
    side.ask("a", heartbeat(side, "a", group, 0, topics=both, owned={ORDERS: [1]}), 1)
    side.ask("a", heartbeat(side, "a", group, -2), 1)
    side.ask("a", heartbeat(side, "a", group, -3), 1)
    side.ask("a", ConsumerGroupHeartbeatRequest(group, "a", 0), 1)
    side.ask("a", heartbeat(side, "a", group, 0, topics=both, server_assignor="range"), 0)
    side.ask("a", heartbeat(side, "a", group, 3), 1)
    side.ask("b", heartbeat(side, "b", group, 1), 1)
    side.ask("b", heartbeat(side, "b", group, 0, topics=both), 1)
    side.ask("a", heartbeat(side, "a", group, 2, owned=assigned_to(side, "a", group)), 1)
    side.ask("a", heartbeat(side, "a", group, 2, owned={}), 1)
    side.ask("a", heartbeat(side, "a", group, 2, owned={ORDERS: [3]}), 1)
    side.ask("a", heartbeat(side, "a", group, 2), 1)
    side.ask("a", heartbeat(side, "a", group, 0, topics=both), 1)
    look(side, group)
    side.ask("a", heartbeat(side, "a", group, -1), 1)
    side.ask("a", heartbeat(side, "a", group, -1), 1)
    side.ask("b", heartbeat(side, "b", group, 3, server_assignor="uniform"), 1)
    side.ask("b", heartbeat(side, "b", group, -1), 1)


def static_consumers(side: Side, group: str) -> None:
    one: dict[str, Any] = {"instance_id": "one"}
    two: dict[str, Any] = {"instance_id": "two"}
    side.ask("a", heartbeat(side, "a", group, 0, topics=(ORDERS,), **one), 1)
    side.ask("b", heartbeat(side, "b", group, 0, topics=(ORDERS,), **two), 1)
    side.ask("a", heartbeat(side, "a", group, 2, owned={ORDERS: [0, 1]}, **one), 1)
    side.ask("b", heartbeat(side, "b", group, 3, **two), 1)
    look(side, group)
    side.ask("z", heartbeat(side, "z", group, 0, topics=(ORDERS,), **two), 1)
    side.ask("z", heartbeat(side, "z", group, 3, **two), 1)
    side.ask("z", heartbeat(side, "z", group, 3, instance_id="three"), 1)
    side.ask("z", heartbeat(side, "z", group, -2, instance_id="three"), 1)
    side.ask("z", heartbeat(side, "z", group, -2, **two), 1)
    side.ask("b", heartbeat(side, "b", group, -2, **two), 1)
    look(side, group)
    side.ask("c", heartbeat(side, "c", group, 0, topics=(ORDERS,), **two), 1)
    look(side, group)
    side.ask("b", heartbeat(side, "b", group, 3, **two), 1)
    side.ask("c", heartbeat(side, "c", group, -2, **two), 1)
    side.ask("d", heartbeat(side, "d", group, 0, topics=(AUDIT,), **two), 1)
    side.ask("a", heartbeat(side, "a", group, 3, owned={ORDERS: [0, 1]}, **one), 1)
    look(side, group)
    side.ask("operator", LeaveGroupRequest(group, members=[MemberIdentity("", "one")]), 5)
    side.ask("d", heartbeat(side, "d", group, -1, **two), 1)
    look(side, group)


def expressions(side: Side, group: str) -> None:
    regex = "group-(orders|audit)"
    side.ask("a", heartbeat(side, "a", group, 0, subscribed_topic_regex=regex), 1)

    def resolved() -> bool:
        side.begin("operator", ConsumerGroupDescribeRequest([group]), 1)
        (found,) = side.speakers["operator"].finish().groups
        return bool(found.group_epoch == 2)

    until(resolved, "the topics of a regular expression")
    side.ask("a", heartbeat(side, "a", group, 1), 1)
    look(side, group)
    side.ask("b", heartbeat(side, "b", group, 0, subscribed_topic_regex="("), 1)
    side.told[-1][2].error_message = "which says what RE2 thinks of it"
    side.ask("b", heartbeat(side, "b", group, 0, topics=(), subscribed_topic_regex=""), 1)
    side.ask("a", heartbeat(side, "a", group, 2, subscribed_topic_regex=""), 1)
    look(side, group)
    side.ask("a", heartbeat(side, "a", group, -1), 1)
    side.ask("b", heartbeat(side, "b", group, -1), 1)


def kinds(side: Side, group: str) -> None:
    """An empty group becomes the other kind; offsets stay."""
    enter(side, "a", group)
    side.finish("a")
    side.ask("a", sync(side, "a", group, 1, {"a": b"all"}), 5)
    side.ask("a", commit(side, side.ids["a"], group, 1), 9)
    side.ask("a", LeaveGroupRequest(group, members=[MemberIdentity(side.ids["a"])]), 5)
    side.ask("k", heartbeat(side, "k", group, 0, topics=(ORDERS,)), 1)
    look(side, group)
    side.ask("operator", fetch(side, group, 9), 9)
    side.ask("k", heartbeat(side, "k", group, -1), 1)
    enter(side, "a2", group)
    side.finish("a2")
    look(side, group)
    side.ask("operator", fetch(side, group, 9), 9)
    side.ask("a2", LeaveGroupRequest(group, members=[MemberIdentity(side.ids["a2"])]), 5)
    side.ask("operator", DeleteGroupsRequest([group]), 2)
    side.ask("operator", fetch(side, group, 9), 9)


def committed(side: Side, group: str) -> int:
    answer = side.operator.send(fetch(side, group, 7), 7, OffsetFetchResponse)
    return answer.topics[0].partitions[0].committed_offset


def init(side: Side) -> tuple[int, int] | None:
    answer = side.operator.send(InitProducerIdRequest("t", 60_000), 4, InitProducerIdResponse)
    return None if answer.error_code else (answer.producer_id, answer.producer_epoch)


def transactional(side: Side, group: str) -> None:
    """Who commits in a transaction says who it is, if it can; versions that cannot are believed."""
    until(lambda: side.operator.has_coordinator("t", TRANSACTION), "a transaction coordinator")
    producer_id, epoch = until(lambda: init(side), "a producer")
    one = TxnOffsetCommitRequestPartition(0, 7, -1, "")
    topics = [TxnOffsetCommitRequestTopic(ORDERS, [one])]
    for version in (3, 4):
        request = TxnOffsetCommitRequest("t", group, producer_id, epoch, topics=topics)
        side.ask("a", request, version)
    side.ask("a", AddOffsetsToTxnRequest("t", producer_id, epoch, group), 3)
    enter(side, "a", group)
    side.finish("a")
    side.ask("a", sync(side, "a", group, 1, {"a": b"all"}), 5)
    who = side.ids["a"]
    for generation, member_id, instance in (
        (2, who, None), (1, "nobody", None), (1, "", None), (1, who, "one"), (-1, who, None),
    ):  # fmt: skip
        request = TxnOffsetCommitRequest(
            "t", group, producer_id, epoch, generation, member_id, instance, topics
        )
        side.ask("a", request, 3)
    other = "no-such-group"
    side.ask("a", TxnOffsetCommitRequest("t", other, producer_id, epoch, 1, who, None, topics), 3)
    side.ask("a", TxnOffsetCommitRequest("t", group, producer_id, epoch, 1, who, None, topics), 3)
    side.ask("a", TxnOffsetCommitRequest("t", group, producer_id, epoch, topics=topics), 2)
    side.ask("a", EndTxnRequest("t", producer_id, epoch, True), 3)
    until(lambda: committed(side, group) == 7, "the committed offset")
    # The newer protocol: the partition is added to the transaction by whoever writes to it.
    one.committed_offset = 8
    producer_id, epoch = until(lambda: init(side), "a producer")
    side.ask("a", TxnOffsetCommitRequest("t", group, producer_id, epoch, 1, who, None, topics), 5)
    assert committed(side, group) == 7
    side.ask("a", EndTxnRequest("t", producer_id, epoch, True), 5)
    side.told.pop()  # it has the next producer epoch in it
    until(lambda: committed(side, group) == 8, "the committed offset")
    side.ask("a", TxnOffsetCommitRequest("t", group, producer_id, epoch, 1, who, None, topics), 5)
    side.ask("a", TxnOffsetCommitRequest("t", group, producer_id, epoch, 1, who, None, topics), 3)
    side.ask("a", LeaveGroupRequest(group, members=[MemberIdentity(who)]), 5)


STORIES: tuple[Callable[[Side, str], None], ...] = (
    rounds,
    refusals,
    static_members,
    consumers,
    consumer_refusals,
    static_consumers,
    expressions,
    kinds,
    transactional,
)


@pytest.fixture(scope="module")
def theirs(kafka4: ApacheKafka) -> Iterator[ApacheKafka]:
    for topic, partitions in TOPICS.items():
        kafka4.admin.create_topic(topic, partitions)
    yield kafka4
    for topic in TOPICS:
        kafka4.admin.delete_topic(topic)


@pytest.fixture(scope="module")
def ours() -> Iterator[EmbeddedCluster]:
    options = {
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.assignment.interval.ms": 0,
        "group.consumer.heartbeat.interval.ms": 5_000,  # Kafka's own; tests have a quicker one
    }
    with EmbeddedCluster(brokers=1, options=options) as cluster:
        for topic, partitions in TOPICS.items():
            cluster.create_topic(topic, partitions)
        yield cluster


@pytest.mark.parametrize("story", STORIES, ids=[story.__name__ for story in STORIES])
def test_the_same_story(
    story: Callable[[Side, str], None], theirs: ApacheKafka, ours: EmbeddedCluster
) -> None:
    group = f"group-{story.__name__}"
    with Side(theirs.bootstrap) as there, Side(ours.bootstrap_servers) as here:
        assign_at_once(there, group)
        story(there, group)
        story(here, group)
        answers = list(zip(there.told, here.told, strict=True))
        others = []
        for step, ((name, kind, wanted), (_, _, came)) in enumerate(answers):
            found = differences(there.normal(wanted), here.normal(came))
            others += [f"{step}. {kind} to {name}: {one}" for one in found]
        assert not others, f"{len(answers)} answers, Kafka's and ours:\n" + "\n".join(others)


def assign_at_once(there: Side, group: str) -> None:
    """Kafka's groups wait a second from one target assignment to the next, but for this one."""
    option = AlterableConfig("consumer.assignment.interval.ms", 0, "0")
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(32, group, [option])])
    answer = there.operator.send(request, 1, IncrementalAlterConfigsResponse)
    assert [one.error_code for one in answer.responses] == [0]


def differences(wanted: Any, came: Any, where: str = "") -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(came, dict):
        for name in wanted:
            yield from differences(wanted[name], came[name], f"{where}.{name}")
    elif isinstance(wanted, list) and isinstance(came, list) and len(wanted) == len(came):
        for number, (one, other) in enumerate(zip(wanted, came, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif wanted != came:
        yield f"{where.lstrip('.')} {wanted!r} and {came!r}"


def test_a_log_that_kafka_wrote(theirs: ApacheKafka) -> None:
    """Its records become the same bytes again, and its groups are the same when we read them."""
    with Side(theirs.bootstrap) as side:
        enter(side, "a", "group-read-classic")
        side.finish("a")
        side.ask("a", sync(side, "a", "group-read-classic", 1, {"a": b"all"}), 5)
        group = "group-read-consumers"
        side.ask("x", heartbeat(side, "x", group, 0, topics=(ORDERS,)), 1)
        side.ask("y", heartbeat(side, "y", group, 0, topics=(ORDERS,)), 1)
        side.ask("x", heartbeat(side, "x", group, 2), 1)
        topics = {name: Topic(side.topic_ids[name], count) for name, count in TOPICS.items()}
        side.begin("operator", ConsumerGroupDescribeRequest([group]), 1)
        (consumers_there,) = side.speakers["operator"].finish().groups
        side.begin("operator", DescribeGroupsRequest(["group-read-classic"]), 6)
        (classic_there,) = side.speakers["operator"].finish().groups
    theirs.stop(1)
    records = []
    for key, value in rows_of(theirs):
        record = group_log.from_bytes(key, value, "theirs")
        if record is not None:
            assert group_log.to_bytes(record) == (key, value), record
            records.append(record)
    theirs.start(1)
    reader = Groups(GroupConfig(), Random(1))
    reader.handle(Load(records), 0, 0)
    reader.handle(TopicsAre(topics), 0, 0)
    reader.check()
    consumers_here = reader.describe_consumers("group-read-consumers")
    consumers_here.members.sort(key=lambda member: member.member_id)
    consumers_there.members.sort(key=lambda member: member.member_id)
    assert consumers_here == consumers_there
    assert reader.describe("group-read-classic", 6) == classic_there


def rows_of(kafka: ApacheKafka) -> list[tuple[bytes, bytes | None]]:
    rows = []
    for segment in sorted((kafka.data_directory() / "__consumer_offsets-0").glob("*.log")):
        for header, section in split(segment.read_bytes()):
            if not header.is_control:
                for row in decode(header.pack() + section).records():
                    assert row.key is not None
                    rows.append((row.key, row.value))
    return rows
