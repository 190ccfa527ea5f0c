"""What a cluster says of itself: its brokers, its topics, and where the replicas are."""

from __future__ import annotations

from dataclasses import dataclass

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.connection import refused
from sexton.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from sexton.protocol.wire import ZERO_UUID


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    node: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """Who leads and who follows."""

    partition: TopicPartition
    leader: int  # -1: nobody
    leader_epoch: int
    replicas: tuple[int, ...]  # in order of preference
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: bytes
    internal: bool
    partitions: dict[int, PartitionPlace]  # by number


@dataclass(frozen=True, slots=True)
class Topology:
    cluster_id: str | None
    controller: int  # -1: nobody says
    brokers: dict[int, BrokerAddress]  # those that are up
    topics: dict[str, Topic]

    def topic(self, name: str) -> Topic:
        """By its name; Refused if there is none."""
        found = self.topics.get(name)
        if found is None:
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return found

    def place(self, partition: TopicPartition) -> PartitionPlace:
        """Where a partition lives; Refused if there is none."""
        found = self.topic(partition.topic).partitions.get(partition.partition)
        if found is None:
            why = f"the topic {partition.topic} has no partition {partition.partition}"
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, why)
        return found


def may_be_same(topic_id: bytes, other_id: bytes) -> bool:
    """Can both ids be of one topic? An old Kafka has none, nor have some brokers in an upgrade."""
    return topic_id == other_id or ZERO_UUID in (topic_id, other_id)


_NOT_THERE = (KafkaError.UNKNOWN_TOPIC_OR_PARTITION, KafkaError.UNKNOWN_TOPIC_ID)


def topology_of(response: MetadataResponse) -> Topology:
    """From an answer to Metadata; a topic that is not there is left out, any other error raised."""
    if response.error_code:
        raise refused(response.error_code, "the cluster's metadata")
    topics: dict[str, Topic] = {}
    for topic in response.topics:
        if topic.error_code in _NOT_THERE:
            continue
        # Without a leader for now, or just being made: what is known is in the answer.
        if topic.error_code not in (KafkaError.NONE, KafkaError.LEADER_NOT_AVAILABLE):
            raise refused(topic.error_code, f"the topic {topic.name}")
        topics[topic.name or ""] = _topic(topic)
    brokers = {
        b.node_id: BrokerAddress(b.node_id, b.host, b.port, b.rack) for b in response.brokers
    }
    return Topology(response.cluster_id, response.controller_id, brokers, topics)


def _topic(topic: MetadataResponseTopic) -> Topic:
    name = topic.name or ""
    places = {
        p.partition_index: PartitionPlace(
            TopicPartition(name, p.partition_index),
            p.leader_id,
            p.leader_epoch,
            tuple(p.replica_nodes),
            tuple(p.isr_nodes),
            tuple(p.offline_replicas),
        )
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    }
    return Topic(name, topic.topic_id, topic.is_internal, places)
