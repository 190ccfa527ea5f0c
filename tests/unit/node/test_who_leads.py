"""Who asks another than the leader is told who leads, and where (KIP-951).

librdkafka warns of each leader that an answer names without saying where it is.
"""

from __future__ import annotations

from typing import Any

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sexton.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sexton.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.records.few import few_batch
from tests.unit.node.small_cluster import SmallCluster

TOPIC, PARTITIONS, BROKERS = "t", 4, 3


@pytest.fixture(scope="module")
def cluster() -> SmallCluster:
    cluster = SmallCluster(BROKERS)
    new = CreatableTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    assert cluster.ask(CreateTopicsRequest([new]), 7).topics[0].error_code == 0
    cluster.wait(1000)
    return cluster


@pytest.fixture(scope="module")
def topic(cluster: SmallCluster) -> Any:
    (found,) = cluster.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 12).topics
    return found


def produced(cluster: SmallCluster, topic: Any, version: int, node: int) -> tuple[Any, list[Any]]:
    batch = few_batch([(b"k", b"v")], cluster.world.now_ms)
    data = [PartitionProduceData(number, batch) for number in range(PARTITIONS)]
    name, topic_id = (TOPIC, bytes(16)) if version < 13 else ("", topic.topic_id)
    request = ProduceRequest(None, -1, 10_000, [TopicProduceData(name, topic_id, data)])
    answer = cluster.ask(request, version, node)
    return answer, answer.responses[0].partition_responses


def fetched(cluster: SmallCluster, topic: Any, version: int, node: int) -> tuple[Any, list[Any]]:
    wanted = [FetchPartition(number, fetch_offset=0) for number in range(PARTITIONS)]
    name, topic_id = (TOPIC, bytes(16)) if version < 13 else ("", topic.topic_id)
    request = FetchRequest(topics=[FetchTopic(name, topic_id, wanted)], session_epoch=-1)
    answer = cluster.ask(request, version, node)
    return answer, answer.responses[0].partitions


@pytest.mark.parametrize(
    ("ask", "version", "says_who", "says_where"),
    [
        (produced, 9, False, False),
        (produced, 10, True, True),
        (produced, 13, True, True),
        (fetched, 11, False, False),
        (fetched, 12, True, False),
        (fetched, 16, True, True),
        (fetched, 18, True, True),
    ],
)
def test_another_than_the_leader_names_it_and_says_where_it_is(
    cluster: SmallCluster, topic: Any, ask: Any, version: int, says_who: bool, says_where: bool
) -> None:
    leaders = {each.partition_index: each.leader_id for each in topic.partitions}
    assert len(set(leaders.values())) == BROKERS
    for node in range(1, BROKERS + 1):
        answer, partitions = ask(cluster, topic, version, node)
        told = dict[int, int]()
        for number, each in enumerate(partitions):  # in the order of the request
            own = leaders[number] == node
            assert each.error_code == (KafkaError.NONE if own else NOT_LEADER), (node, number)
            if each.current_leader.leader_id >= 0:
                told[number] = each.current_leader.leader_id
        others = {number: leader for number, leader in leaders.items() if leader != node}
        assert told == (others if says_who else {})
        found = sorted((e.node_id, e.host, e.port, e.rack) for e in answer.node_endpoints)
        assert found == [where(leader) for leader in sorted({*told.values()})] * says_where


NOT_LEADER = KafkaError.NOT_LEADER_OR_FOLLOWER


def where(node: int) -> tuple[int, str, int, str]:
    return node, "localhost", 9091 + node, f"rack-{node % 2}"
