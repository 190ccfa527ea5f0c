"""A committed offset, or its end, that cannot be written does not count with what comes next."""

from __future__ import annotations

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.log.partition import Appended
from sexton.machines import offsets as offsets_machine
from sexton.machines.offset_messages import OffsetRecord
from sexton.node import group_offsets
from sexton.node.replica import Replica
from sexton.protocol.codec import EncodeError
from sexton.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
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
    OffsetFetchRequestTopics,
)
from sexton.protocol.wire import Buffer
from tests.unit.node.small_cluster import SmallCluster

GROUP, TOPIC = "readers", "orders"
NEIGHBOUR = "writers"  # its offsets are in the same partition
WITH_RETENTION = 4  # a version of OffsetCommit that says when an offset expires
PARTITIONS = [0, 1]


@pytest.fixture
def cluster() -> SmallCluster:
    """One broker, so that whatever is appended is replicated at once."""
    cluster = SmallCluster(1)
    cluster.ask(CreateTopicsRequest([CreatableTopic(TOPIC, len(PARTITIONS), 1)]), 5)
    cluster.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
    cluster.wait(5_000)
    assert commit(cluster, 5) == [KafkaError.NONE] * 2
    return cluster


def commit(
    cluster: SmallCluster,
    offset: int,
    version: int = 8,
    retention_ms: int = -1,
    group: str = GROUP,
) -> list[KafkaError]:
    partitions = [OffsetCommitRequestPartition(number, offset) for number in PARTITIONS]
    topics = [OffsetCommitRequestTopic(TOPIC, partitions=partitions)]
    request = OffsetCommitRequest(group, retention_time_ms=retention_ms, topics=topics)
    (topic,) = cluster.ask(request, version).topics
    return [KafkaError(each.error_code) for each in topic.partitions]


def delete(cluster: SmallCluster) -> list[KafkaError]:
    doomed = [OffsetDeleteRequestPartition(number) for number in PARTITIONS]
    request = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(TOPIC, doomed)])
    (topic,) = cluster.ask(request, 0).topics
    return [KafkaError(each.error_code) for each in topic.partitions]


def committed(cluster: SmallCluster) -> list[int]:
    group = OffsetFetchRequestGroup(
        GROUP, topics=[OffsetFetchRequestTopics(TOPIC, partition_indexes=PARTITIONS)]
    )
    (answer,) = cluster.ask(OffsetFetchRequest(groups=[group]), 9).groups
    return [each.committed_offset for each in answer.topics[0].partitions]


def test_a_batch_that_was_not_written_does_not_count_with_the_next_one(
    cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets_machine, "MOST_TOMBSTONES", 1)
    append, refuse = Replica.append, [True]

    def refuse_once(
        replica: Replica, batch: Buffer, *, waits: bool = True, client: bool = True
    ) -> Appended:
        if refuse:
            refuse.pop()
            raise Refused(KafkaError.NOT_ENOUGH_REPLICAS, "one of three is in sync")
        return append(replica, batch, waits=waits, client=client)

    monkeypatch.setattr(Replica, "append", refuse_once)
    assert delete(cluster) == [KafkaError.COORDINATOR_NOT_AVAILABLE] * 2
    assert committed(cluster) == [5, -1]
    assert delete(cluster) == [KafkaError.NONE] * 2
    assert committed(cluster) == [-1, -1]


def test_an_offset_may_be_kept_for_ever(cluster: SmallCluster) -> None:
    """For longer than can be written down: it is kept for as long as can."""
    assert commit(cluster, 7, WITH_RETENTION, 2**63 - 1) == [KafkaError.NONE] * 2
    assert committed(cluster) == [7, 7]
    cluster.kill(1)
    cluster.world.start(1)
    cluster.wait(30_000)
    assert committed(cluster) == [7, 7]


def test_one_that_cannot_be_encoded_is_not_taken_for_written(
    cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(record: OffsetRecord) -> tuple[bytes, bytes | None]:
        raise EncodeError(f"{record} has no bytes")

    with monkeypatch.context() as patched:
        patched.setattr(group_offsets, "to_bytes", fail)
        with pytest.raises(EncodeError):
            commit(cluster, 99)
    assert commit(cluster, 1, group=NEIGHBOUR) == [KafkaError.NONE] * 2
    assert committed(cluster) == [5, 5]
