"""A batch that the disk has changed is one partition's trouble, and not that of its neighbours."""

from __future__ import annotations

import uuid

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.names import LOG
from sexton.machines import controller as admin
from sexton.node.outside import CONTROLLER
from sexton.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from sexton.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sexton.sim.clients import Sequence, batch_of, produce_request
from tests.unit.node.small_cluster import SmallCluster

TOPIC = "t"
LEADER, FOLLOWER = 1, 2
DAMAGED, SOUND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
LENGTH, MAGIC = 8, 16  # where they are in a batch


@pytest.fixture
def cluster() -> SmallCluster:
    """Two partitions with two batches each; the follower has heard of the first one only."""
    cluster = SmallCluster(2)
    create = admin.CreateTopic(None, TOPIC, uuid.UUID(int=7).hex, -1, -1, ((1, 2), (1, 2)))
    cluster.world.send(-101, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    for partition in (DAMAGED, SOUND):
        write(cluster, partition)
    cluster.kill(FOLLOWER)
    for partition in (DAMAGED, SOUND):
        write(cluster, partition)
    return cluster


def write(cluster: SmallCluster, partition: TopicPartition, acks: int = -1) -> None:
    batch = batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms)
    request = produce_request(partition, batch, None)
    request.acks = acks
    answer = cluster.ask(request, 9, LEADER)
    assert answer.responses[0].partition_responses[0].error_code == 0


def damage(cluster: SmallCluster, place: int) -> None:
    """One bit in the header of the last batch; doing it again mends it."""
    segment = cluster.broker(LEADER).replicas.get(DAMAGED).log.active
    batch_bytes = segment.size // segment.end_offset  # each has one record
    position = segment.size - batch_bytes + place
    cluster.world.processes[LEADER].disk.memory.flip(segment.path(LOG), position)


def fetch(cluster: SmallCluster) -> dict[int, PartitionData]:
    """From the second batch on."""
    asked = [FetchPartition(p.partition, fetch_offset=1) for p in (DAMAGED, SOUND)]
    for each in asked:
        each.partition_max_bytes = 1 << 20
    request = FetchRequest(min_bytes=1, max_bytes=1 << 20, session_epoch=-1)
    request.topics = [FetchTopic(TOPIC, partitions=asked)]
    (topic,) = cluster.ask(request, 12, LEADER).responses
    return {data.partition_index: data for data in topic.partitions}


def list_offsets(cluster: SmallCluster) -> list[ListOffsetsPartitionResponse]:
    """At the time of the second batch."""
    at = cluster.broker(LEADER).replicas.get(DAMAGED).log.active.max_timestamp.timestamp
    asked = [ListOffsetsPartition(p.partition, timestamp=at) for p in (DAMAGED, SOUND)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(TOPIC, asked)])
    return cluster.ask(request, 9, LEADER).topics[0].partitions


def test_a_consumer_is_told_which_partition_it_is(cluster: SmallCluster) -> None:
    damage(cluster, MAGIC)
    found = fetch(cluster)
    assert found[0].error_code == KafkaError.CORRUPT_MESSAGE and not found[0].records
    assert found[1].error_code == KafkaError.NONE and found[1].records


def test_who_asks_for_a_time_is_told_which_partition_it_is(cluster: SmallCluster) -> None:
    damage(cluster, MAGIC)
    damaged, sound = list_offsets(cluster)
    assert (damaged.error_code, damaged.offset) == (KafkaError.CORRUPT_MESSAGE, -1)
    assert (sound.error_code, sound.offset) == (KafkaError.NONE, 1)


@pytest.mark.parametrize("place", [MAGIC, LENGTH], ids=["magic", "length"])
def test_a_follower_goes_on_with_the_others(cluster: SmallCluster, place: int) -> None:
    damage(cluster, place)
    cluster.world.start(FOLLOWER)
    cluster.wait(30_000)
    isr = {p: cluster.image.partitions[p].isr for p in (DAMAGED, SOUND)}
    assert isr == {DAMAGED: (LEADER,), SOUND: (LEADER, FOLLOWER)}

    fetches = count_fetches(cluster)
    began_ms = cluster.world.now_ms
    for _ in range(5):
        write(cluster, SOUND)
    assert cluster.world.now_ms - began_ms < 500, "it does not pause along with the damaged one"
    cluster.wait(10_000)
    assert len(fetches) < 100, "nor does it ask for the damaged one without a pause"

    damage(cluster, place)
    cluster.wait(30_000)
    assert cluster.image.partitions[DAMAGED].isr == (LEADER, FOLLOWER), "it was asked for again"


def test_a_log_that_cannot_be_cut_does_not_hold_up_the_others(cluster: SmallCluster) -> None:
    """The leader of before has a batch more than the next one in both, and one is damaged."""
    cluster.world.start(FOLLOWER)
    cluster.wait(30_000)
    for near, far in ((LEADER, FOLLOWER), (LEADER, CONTROLLER)):
        cluster.world.network.cut(near, far)
        cluster.world.network.cut(far, near)
    for partition in (DAMAGED, SOUND):
        write(cluster, partition, acks=1)
    damage(cluster, MAGIC)
    while cluster.image.partitions[SOUND].leader != FOLLOWER:
        cluster.wait(1_000)
    cluster.world.network.heal()
    cluster.wait(60_000)
    isr = {p: cluster.image.partitions[p].isr for p in (DAMAGED, SOUND)}
    assert isr == {DAMAGED: (FOLLOWER,), SOUND: (LEADER, FOLLOWER)}


def count_fetches(cluster: SmallCluster) -> list[FetchRequest]:
    leader, fetches = cluster.broker(LEADER), []
    handle = leader._handlers[FetchRequest]

    def counted(caller: object, request: FetchRequest, version: int) -> None:
        fetches.append(request)
        handle(caller, request, version)

    leader._handlers[FetchRequest] = counted
    return fetches
