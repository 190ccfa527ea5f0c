"""A topic is deleted while nobody keeps its groups' offsets: they go all the same.

A group that finds the offset of an earlier topic by the same name would begin in the middle of the
new one, or past its end.
"""

from __future__ import annotations

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.coordinators import CONSUMER_OFFSETS, RETRY_LOAD_MS
from sexton.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sexton.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sexton.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.unit.node.small_cluster import SmallCluster

GROUP, GOES, STAYS = "readers", "orders", "payments"
BY_NAME = 8  # a version of OffsetCommit that does not name topics by their ids
WITH_RETENTION = 4  # one that says when an offset expires: such a record has no topic's id
A_DAY_MS = 24 * 3600_000
INSIDE_THE_RECORD = 75  # of the first batch
PATH = f"{TopicPartition(CONSUMER_OFFSETS, 0)}/{0:020}.log"


def started(brokers: int, version: int, replicas: int = 1) -> SmallCluster:
    cluster = SmallCluster(
        brokers, offsets_topic_num_partitions=1, offsets_topic_replication_factor=replicas
    )
    create(cluster, GOES)
    create(cluster, STAYS)
    cluster.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
    cluster.wait(5_000)
    request = OffsetCommitRequest(GROUP)
    if version == WITH_RETENTION:
        request.retention_time_ms = A_DAY_MS
    for topic in (GOES, STAYS):
        partitions = [OffsetCommitRequestPartition(0, 5)]
        request.topics.append(OffsetCommitRequestTopic(topic, partitions=partitions))
    answer = cluster.ask(request, version, coordinator(cluster))
    assert [topic.partitions[0].error_code for topic in answer.topics] == [KafkaError.NONE] * 2
    return cluster


def coordinator(cluster: SmallCluster) -> int:
    return cluster.image.partitions[TopicPartition(CONSUMER_OFFSETS, 0)].leader


def create(cluster: SmallCluster, topic: str, node: int = 1, replicas: int | None = None) -> None:
    """On all brokers, so that it can be deleted whichever of them is there."""
    replicas = replicas or len(cluster.world.processes) - 1
    (answer,) = cluster.ask(
        CreateTopicsRequest([CreatableTopic(topic, 1, replicas)]), 7, node
    ).topics
    assert not answer.error_code


def delete(cluster: SmallCluster, node: int = 1) -> None:
    request = DeleteTopicsRequest([DeleteTopicState(GOES)], timeout_ms=10_000)
    (answer,) = cluster.ask(request, 6, node).responses
    assert not answer.error_code


def committed(cluster: SmallCluster) -> list[str]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)])
    (group,) = cluster.ask(request, 9, coordinator(cluster)).groups
    assert not group.error_code
    return [topic.name for topic in group.topics]


@pytest.mark.parametrize("version", [BY_NAME, WITH_RETENTION])
def test_the_offsets_of_a_topic_that_was_deleted_while_its_coordinator_was_away_go(
    version: int,
) -> None:
    cluster = started(2, version)
    away = coordinator(cluster)
    cluster.kill(away)
    delete(cluster, node=3 - away)
    cluster.world.start(away)
    cluster.wait(20_000)
    assert committed(cluster) == [STAYS]


def test_they_do_not_pass_to_one_that_came_before_another_broker_was_the_coordinator() -> None:
    """It heard of both topics before it had anything to do with their groups' offsets."""
    cluster = started(3, BY_NAME, replicas=3)
    cluster.world.kill(coordinator(cluster))
    left = next(node for node in (1, 2, 3) if node != coordinator(cluster))
    delete(cluster, left)
    create(cluster, GOES, left, replicas=2)
    cluster.wait(30_000)
    assert committed(cluster) == [STAYS]


@pytest.mark.parametrize("version", [BY_NAME, WITH_RETENTION])
def test_they_do_not_pass_to_a_topic_of_the_same_name_that_came_while_they_were_loaded(
    version: int,
) -> None:
    cluster = started(1, version)
    disk = cluster.world.processes[1].disk
    cluster.kill(1)
    cluster.world.start(1)
    disk.memory.flip(PATH, INSIDE_THE_RECORD)  # so that they cannot be loaded for a while
    cluster.wait(10_000)
    delete(cluster)
    create(cluster, GOES)
    disk.memory.flip(PATH, INSIDE_THE_RECORD)
    cluster.wait(RETRY_LOAD_MS)
    assert committed(cluster) == [STAYS]
