"""Committed offsets of a group, deleted in several batches of which one cannot be written."""

from __future__ import annotations

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.log.partition import Appended
from sexton.machines import offsets as offsets_machine
from sexton.node.replica import Replica
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
PARTITIONS = [0, 1]


@pytest.fixture
def cluster() -> SmallCluster:
    """One broker, so that whatever is appended is replicated at once."""
    cluster = SmallCluster(1)
    cluster.ask(CreateTopicsRequest([CreatableTopic(TOPIC, len(PARTITIONS), 1)]), 5)
    cluster.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
    cluster.wait(5_000)
    committed = [OffsetCommitRequestPartition(number, 5) for number in PARTITIONS]
    request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(TOPIC)])
    request.topics[0].partitions = committed
    (topic,) = cluster.ask(request, 8).topics
    assert [each.error_code for each in topic.partitions] == [KafkaError.NONE] * 2
    return cluster


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
