"""What an operator asks of any Kafka: topics, elections, reassignments.

Each call raises `Refused` with the first error that the cluster gives, and names what it is about.
Where Kafka says that there was nothing to do, that is an answer and not an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import error_name, refused
from sexton.client.replica import Replica
from sexton.client.topology import PartitionPlace
from sexton.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from sexton.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sexton.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sexton.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from sexton.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from sexton.protocol.own_messages import AskedTopic, DescribeReplicasRequest

PREFERRED, UNCLEAN = 0, 1
DEFAULT = -1  # for a number that the broker may choose
_IN_STATES = range(6, 1 << 15)  # of DeleteTopics; earlier ones name topics in another field
NEWS_TRIES, NEWS_PAUSE_S = 200, 0.05
_DONE = (KafkaError.NONE, KafkaError.ELECTION_NOT_NEEDED)


# ── topics ──


async def create_topic(
    client: Client,
    topic: str,
    partitions: int = DEFAULT,
    replication_factor: int = DEFAULT,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Makes a topic, and waits until a broker has heard of it; Kafka's controller does not."""
    wanted = CreatableTopic(topic, partitions, replication_factor)
    wanted.configs = [CreatableTopicConfig(k, v) for k, v in (configs or {}).items()]
    answer = await client.ask(CreateTopicsRequest([wanted], client.broker_timeout_ms))
    for result in answer.topics:
        if result.error_code:
            raise refused(result.error_code, f"the topic {topic}", result.error_message)
    for _ in range(NEWS_TRIES):
        found = (await client.topology([topic])).topics.get(topic)
        if found is not None and found.partitions:
            return
        await asyncio.sleep(NEWS_PAUSE_S)


async def delete_topic(client: Client, topic: str) -> None:
    named = [DeleteTopicState(name=topic)]
    request = DeleteTopicsRequest(topics=named, timeout_ms=client.broker_timeout_ms)
    for result in (await client.ask(request, _IN_STATES)).responses:
        if result.error_code:
            raise refused(result.error_code, f"the topic {topic}", result.error_message)


# ── leaders and replicas ──


@dataclass(frozen=True, slots=True)
class Election:
    partition: TopicPartition
    elected: bool  # False: it had that leader already, or `failed`
    failed: str | None = None


async def elect(
    client: Client, partitions: Sequence[TopicPartition] | None, kind: int = PREFERRED
) -> list[Election]:
    """How each election went; None asks for all partitions, and tells of those that changed."""
    asked = None
    if partitions is not None:
        asked = [TopicPartitions(t, numbers) for t, numbers in _by_topic(partitions).items()]
    answer = await client.ask(ElectLeadersRequest(kind, asked, client.broker_timeout_ms))
    if answer.error_code:
        raise refused(answer.error_code, "the election")
    elections = []
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            at = TopicPartition(topic.topic, result.partition_id)
            name = error_name(result.error_code)
            failed = None
            if result.error_code not in _DONE:
                failed = f"{result.error_message} ({name})" if result.error_message else name
            elections.append(Election(at, result.error_code == KafkaError.NONE, failed))
    return elections


async def reassign(client: Client, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Starts to move partitions to these replicas; None puts an end to a move under way."""
    topics: dict[str, ReassignableTopic] = {}
    for at, replicas in wanted.items():
        topic = topics.setdefault(at.topic, ReassignableTopic(at.topic))
        chosen = None if replicas is None else list(replicas)
        topic.partitions.append(ReassignablePartition(at.partition, chosen))
    request = AlterPartitionReassignmentsRequest(client.broker_timeout_ms)
    request.topics = list(topics.values())
    answer = await client.ask(request)
    if answer.error_code:
        raise refused(answer.error_code, "the reassignment", answer.error_message)
    for moved in answer.responses:
        for result in moved.partitions:
            if result.error_code:
                at = TopicPartition(moved.name, result.partition_index)
                raise refused(result.error_code, str(at), result.error_message or "not moved")


@dataclass(frozen=True, slots=True)
class Moving:
    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def moving(
    client: Client, partitions: Sequence[TopicPartition] | None = None
) -> list[Moving]:
    """Reassignments that are under way, of these partitions or of all."""
    asked = None
    if partitions is not None:
        asked = [
            ListPartitionReassignmentsTopics(topic, numbers)
            for topic, numbers in _by_topic(partitions).items()
        ]
    answer = await client.ask(ListPartitionReassignmentsRequest(topics=asked))
    if answer.error_code:
        raise refused(answer.error_code, "reassignments", answer.error_message)
    return [
        Moving(
            TopicPartition(topic.name, p.partition_index), tuple(p.replicas),
            tuple(p.adding_replicas), tuple(p.removing_replicas),
        )
        for topic in answer.topics for p in topic.partitions
    ]  # fmt: skip


# ── where every replica stands ──


@dataclass(frozen=True, slots=True)
class Standing:
    """What one replica says of itself. The last four only one of our brokers knows."""

    partition: TopicPartition
    node: int
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    role: str | None = None  # None: it does not say
    policy: str | None = None
    size_bytes: int | None = None
    mcco: int | None = None
    mtro: int | None = None
    mxfo: int | None = None
    mxro: int | None = None
    uncleanable: str | None = None  # why its cleaner fails


async def standings(client: Client, node: int, places: Iterable[PartitionPlace]) -> list[Standing]:
    """One broker's replicas of these partitions; PeerError if it does not answer."""
    wanted = [place.partition for place in places]
    connection = await client.broker(node)
    try:
        connection.version_of(DescribeReplicasRequest)
    except Refused:
        return [await _from_kafka(client.replica(at, node)) for at in wanted]
    topics = [AskedTopic(name, numbers) for name, numbers in _by_topic(wanted).items()]
    answer = await connection.ask(DescribeReplicasRequest(topics))
    if answer.error_code:
        raise refused(answer.error_code, f"replicas of broker {node}")
    return [
        Standing(
            TopicPartition(topic.name, r.partition_index), node, r.log_start, r.last_stable,
            r.high_watermark, r.log_end, r.role, r.policy, r.size_bytes, r.mcco, r.mtro, r.mxfo,
            r.mxro, r.uncleanable,
        )
        for topic in answer.topics for r in topic.partitions if not r.error_code
    ]  # fmt: skip


async def _from_kafka(replica: Replica) -> Standing:
    """Apache Kafka tells each replica's own offsets, and nothing of cleaning."""
    found = await replica.offsets()
    return Standing(
        replica.partition, replica.node, found.log_start, found.last_stable, found.high_watermark,
        found.log_end,
    )  # fmt: skip


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for at in partitions:
        grouped.setdefault(at.topic, []).append(at.partition)
    return grouped
