"""The broker that coordinates a group dies. Its members go on with another one.

Three real brokers on the simulator's network, disks and clock. The new coordinator reads the group
from its log: members keep their generation or epoch, and nothing that was committed is lost.
"""

from __future__ import annotations

from typing import Any

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.machines import group_log
from sexton.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from sexton.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sexton.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.heartbeat import HeartbeatRequest
from sexton.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sexton.protocol.messages.list_groups import ListGroupsRequest
from sexton.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sexton.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.node.small_cluster import SmallCluster

GROUP, TOPIC = "readers", "orders"


class Readers:
    """A cluster, and whoever coordinates the group there."""

    def __init__(self) -> None:
        self.cluster = SmallCluster(
            group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0
        )
        topic = CreatableTopic(TOPIC, 4, 3)
        answer = self.cluster.ask(CreateTopicsRequest([topic]), 7)
        assert [one.error_code for one in answer.topics] == [0]
        self.cluster.wait(5_000)
        self.topic_id = bytes.fromhex(self.cluster.image.topics[TOPIC].topic_id)
        self.alive = [1, 2, 3]

    @property
    def coordinator(self) -> int:
        for _ in range(200):
            request = FindCoordinatorRequest(coordinator_keys=[GROUP])
            (found,) = self.cluster.ask(request, 4, self.alive[0]).coordinators
            if not found.error_code and found.node_id in self.alive:
                return found.node_id
            self.cluster.wait(500)
        raise AssertionError("no coordinator")

    def ask(self, request: Any, version: int) -> Any:
        return self.cluster.ask(request, version, self.coordinator)

    def kill_coordinator(self) -> None:
        gone = self.coordinator
        self.alive.remove(gone)
        self.cluster.kill(gone)
        self.cluster.wait(5_000)
        assert self.coordinator != gone

    def commit(self, member_id: str, generation: int, offset: int) -> KafkaError:
        one = OffsetCommitRequestPartition(0, offset, -1, "")
        topic = OffsetCommitRequestTopic(TOPIC, partitions=[one])
        request = OffsetCommitRequest(GROUP, generation, member_id, topics=[topic])
        return KafkaError(self.ask(request, 9).topics[0].partitions[0].error_code)

    def committed(self) -> int:
        topic = OffsetFetchRequestTopics(TOPIC, bytes(16), [0])
        group = OffsetFetchRequestGroup(GROUP, topics=[topic])
        answer = self.ask(OffsetFetchRequest(groups=[group], require_stable=True), 9)
        offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return offset

    def check(self) -> None:
        for node in self.alive:
            broker = self.cluster.broker(node)
            broker.groups.check()
            broker.offsets.check()

    # ── members ──

    def join(self) -> tuple[str, int]:
        """A classic group of one."""
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(GROUP, 60_000, 60_000, "", None, "consumer", protocols)
        request.member_id = self.ask(request, 9).member_id
        joined = self.ask(request, 9)
        assert not joined.error_code
        given = [SyncGroupRequestAssignment(request.member_id, b"all")]
        sync = SyncGroupRequest(GROUP, joined.generation_id, request.member_id, assignments=given)
        assert self.ask(sync, 4).assignment == b"all"
        return request.member_id, joined.generation_id

    def beat(
        self, name: str, epoch: int, owned: list[int] | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        joins = epoch == 0
        has = None if owned is None else [RequestTopicPartitions(self.topic_id, owned)]
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            name,
            epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=[TOPIC] if joins else None,
            topic_partitions=[] if joins else has,
        )
        answer = self.ask(request, 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        assert answer.error_code == 0, answer
        return answer


def test_a_classic_group_goes_on_with_another_coordinator() -> None:
    readers = Readers()
    member_id, generation = readers.join()
    assert readers.commit(member_id, generation, 5) is KafkaError.NONE
    readers.kill_coordinator()
    assert readers.ask(HeartbeatRequest(GROUP, generation, member_id), 4).error_code == 0
    assert readers.committed() == 5
    assert readers.commit(member_id, generation, 6) is KafkaError.NONE
    assert readers.committed() == 6
    assert readers.commit(member_id, generation - 1, 1) is KafkaError.ILLEGAL_GENERATION
    assert readers.commit("zombie", generation, 1) is KafkaError.UNKNOWN_MEMBER_ID
    assert readers.committed() == 6
    (listed,) = readers.ask(ListGroupsRequest(["stable"], ["classic"]), 5).groups
    assert listed.group_id == GROUP
    assert not readers.ask(ListGroupsRequest(["empty"]), 5).groups
    readers.check()


def test_its_session_goes_on_as_well() -> None:
    readers = Readers()
    readers.join()
    readers.kill_coordinator()
    readers.cluster.wait(61_000)
    (listed,) = readers.ask(ListGroupsRequest(), 5).groups
    assert listed.group_state == "Empty"


def test_a_consumer_group_goes_on_in_the_middle_of_a_handover() -> None:
    readers = Readers()
    assert readers.beat("a", 0).member_epoch == 2
    assert readers.beat("b", 0).member_epoch == 3
    told = readers.beat("a", 2)  # it is to let go of two partitions, and has not yet
    assert told.assignment is not None
    kept = told.assignment.topic_partitions[0].partitions
    assert len(kept) == 2
    assert readers.commit("a", 2, 5) is KafkaError.NONE
    readers.kill_coordinator()
    assert readers.beat("b", 3).assignment is None, "they are still the first one's"
    assert readers.beat("a", 2, kept).member_epoch == 3
    given = readers.beat("b", 3).assignment
    assert given is not None
    assert sorted(given.topic_partitions[0].partitions + kept) == [0, 1, 2, 3]
    assert readers.committed() == 5
    assert readers.commit("a", 3, 6) is KafkaError.NONE
    assert readers.commit("b", 2, 1) is KafkaError.STALE_MEMBER_EPOCH
    assert readers.committed() == 6
    readers.check()


def test_a_coordinator_that_does_not_read_groups_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Negative control."""
    readers = Readers()
    member_id, generation = readers.join()
    monkeypatch.setattr(group_log, "from_bytes", lambda _key, _value, _where: None)
    readers.kill_coordinator()
    answer = readers.ask(HeartbeatRequest(GROUP, generation, member_id), 4)
    assert answer.error_code == KafkaError.UNKNOWN_MEMBER_ID


def test_offsets_go_with_their_topic() -> None:
    readers = Readers()
    member_id, generation = readers.join()
    assert readers.commit(member_id, generation, 5) is KafkaError.NONE
    readers.ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)]), 6)
    readers.cluster.wait(5_000)
    assert readers.committed() == -1
