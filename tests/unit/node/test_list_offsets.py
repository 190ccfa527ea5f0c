"""Which offset is at a time, wherever in a batch and in whichever segment the record is?"""

from __future__ import annotations

from typing import Any

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.disk import File
from sexton.node.fetch import READ_COMMITTED
from sexton.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sexton.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sexton.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests import handmade
from tests.unit.node.small_cluster import SmallCluster

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


@pytest.fixture(scope="module")
def cluster() -> SmallCluster:
    return SmallCluster()


class Topic:
    def __init__(self, cluster: SmallCluster, name: str, **configs: str) -> None:
        self.cluster, self.name = cluster, name
        options = [CreatableTopicConfig(k.replace("_", "."), v) for k, v in configs.items()]
        new = CreatableTopic(name, num_partitions=1, replication_factor=3, configs=options)
        assert cluster.ask(CreateTopicsRequest([new]), 7).topics[0].error_code == 0
        cluster.wait(1000)
        asked = MetadataRequest([MetadataRequestTopic(name=name)])
        self.leader = cluster.ask(asked, 12).topics[0].partitions[0].leader_id

    def produce(self, *timestamps: int, acks: int = -1) -> None:
        """One batch, with a record for each timestamp."""
        first = timestamps[0]
        batch = handmade.batch(
            *(handmade.record(at, timestamp_delta=t - first) for at, t in enumerate(timestamps)),
            base_timestamp=first,
            max_timestamp=max(timestamps),
        )
        data = TopicProduceData(self.name, partition_data=[PartitionProduceData(0, batch)])
        request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])
        answer = self.cluster.ask(request, 12, self.leader).responses[0].partition_responses[0]
        assert answer.error_code == KafkaError.NONE, answer

    def at(self, timestamp: int) -> tuple[int, int]:
        """(offset, timestamp)"""
        found = self.answer(timestamp)
        assert found.error_code == KafkaError.NONE
        return found.offset, found.timestamp

    def answer(
        self, timestamp: int, version: int = 9, isolation_level: int = 0
    ) -> ListOffsetsPartitionResponse:
        asked = ListOffsetsTopic(self.name, [ListOffsetsPartition(0, timestamp=timestamp)])
        request = ListOffsetsRequest(-1, isolation_level, [asked])
        answer = self.cluster.ask(request, version, self.leader)
        return answer.topics[0].partitions[0]


def test_the_newest_record_is_found_inside_its_batch(cluster: SmallCluster) -> None:
    topic = Topic(cluster, "inside")
    assert topic.at(MAX_TIMESTAMP) == (-1, -1)
    topic.produce(1000, 3000, 3000, 2000)
    assert topic.at(MAX_TIMESTAMP) == (1, 3000)
    assert topic.at(1500) == (1, 3000)


def test_the_newest_record_is_found_in_a_later_segment(cluster: SmallCluster) -> None:
    topic = Topic(cluster, "later", segment_bytes="100")
    for timestamp in (1000, 2000, 5000, 4000):
        topic.produce(timestamp)
    assert topic.at(MAX_TIMESTAMP) == (2, 5000)
    assert topic.at(2001) == (2, 5000)


class Counted:
    """A log file that counts what is read of it."""

    def __init__(self, file: File) -> None:
        self._file, self.bytes_read = file, 0

    def read_at(self, position: int, size: int) -> bytes:
        found = self._file.read_at(position, size)
        self.bytes_read += len(found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_time_is_found_without_reading_what_is_before_it(cluster: SmallCluster) -> None:
    topic = Topic(cluster, "long", index_interval_bytes="500")
    log = cluster.broker(topic.leader).replicas.get(TopicPartition("long", 0)).log
    times = [1000 + 10 * (number ^ 3) for number in range(2000)]  # all but in order
    for timestamp in times:
        batch = handmade.batch(
            handmade.record(0), base_timestamp=timestamp, max_timestamp=timestamp
        )
        log.append_as_leader(batch, 0, timestamp)
    log.advance_high_watermark(2000)
    log.active.log = file = Counted(log.active.log)
    for wanted in (1, 1000, 1005, 5000, 19_995, 20_990, 20_995, 99_999):
        first = next((at for at, time in enumerate(times) if time >= wanted), -1)
        assert topic.at(wanted) == (first, times[first] if first >= 0 else -1)
    assert file.bytes_read < log.size, "all eight together"


def test_what_was_deleted_is_not_the_newest(cluster: SmallCluster) -> None:
    topic = Topic(cluster, "deleted", segment_bytes="100")
    for timestamp in (5000, 4000, 1000, 2000):
        topic.produce(timestamp)
    cluster.wait(2_000)
    cluster.broker(topic.leader).replicas.get(TopicPartition("deleted", 0)).log.delete_records(2)
    assert topic.at(MAX_TIMESTAMP) == (3, 2000)
    assert topic.at(1) == (2, 1000)


def test_who_reads_what_is_committed_is_not_sent_to_what_was_deleted(
    cluster: SmallCluster,
) -> None:
    """An open transaction begins below the log's start: there is nothing to wait for there."""
    topic = Topic(cluster, "cut-transaction")
    topic.produce(1000)
    replica = cluster.broker(topic.leader).replicas.get(TopicPartition("cut-transaction", 0))
    opened = handmade.batch(
        handmade.record(0), attributes=0x10, producer_id=7, producer_epoch=0, base_sequence=0
    )
    replica.append(opened, client=False)
    topic.produce(2000)
    cluster.wait(2_000)
    assert topic.answer(LATEST, isolation_level=READ_COMMITTED).offset == 1
    replica.log.delete_records(3)
    assert topic.at(EARLIEST) == (3, -1)
    assert topic.answer(LATEST, isolation_level=READ_COMMITTED).offset == 3


def test_the_brokers_time_counts_where_a_topic_wants_it(cluster: SmallCluster) -> None:
    topic = Topic(cluster, "appended", message_timestamp_type="LogAppendTime")
    before = cluster.world.now_ms
    topic.produce(1000, 2000)
    offset, timestamp = topic.at(before)
    assert offset == 0 and timestamp >= before
    assert topic.at(MAX_TIMESTAMP) == (0, timestamp)


def test_without_tiered_storage_everything_is_local(cluster: SmallCluster) -> None:
    topic = Topic(cluster, "local")
    topic.produce(1000, 2000)
    assert topic.at(EARLIEST_LOCAL) == (0, -1)
    assert topic.at(LATEST_TIERED) == (-1, -1)


def test_a_new_leader_does_not_guess_the_end() -> None:
    """It has all its predecessor committed, but must hear from the ISR that it is committed."""
    cluster = SmallCluster()
    topic = Topic(cluster, "elected")
    partition = cluster.image.partitions[TopicPartition("elected", 0)]
    old, new, far = partition.replicas
    assert topic.leader == old
    for near in (old, new):  # the third stays alive and in the ISR, and fetches nothing
        cluster.world.network.cut(near, far)
        cluster.world.network.cut(far, near)
    topic.produce(1000, acks=1)
    cluster.wait(1_000)
    cluster.world.kill(old)
    while cluster.image.partitions[TopicPartition("elected", 0)].leader != new:
        cluster.wait(100)
    cluster.wait(500)

    topic.leader = new
    for beyond in (LATEST, MAX_TIMESTAMP, 1000):
        assert topic.answer(beyond).error_code == KafkaError.OFFSET_NOT_AVAILABLE
    assert topic.answer(LATEST, version=4).error_code == KafkaError.LEADER_NOT_AVAILABLE
    assert topic.at(EARLIEST) == (0, -1)
    cluster.world.network.heal()
    cluster.wait(60_000)  # requests that were lost in the cut are given up first
    assert topic.at(LATEST) == (1, -1)
    assert topic.at(1000) == (0, 1000)
