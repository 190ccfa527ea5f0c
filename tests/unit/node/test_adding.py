"""Partitions join a transaction at once, although it takes one step at a time."""

from __future__ import annotations

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.adding import MOST_WAIT_MS
from sexton.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from sexton.records.few import few_batch
from tests.unit.node.small_cluster import CLIENT, SmallCluster

TRANSACTION = 1  # the kind of key that a coordinator is looked for
ALL = (1, 2, 3)  # partitions have the numbers of their leaders; that of 0 is led by 1, too
VERSION = 12  # of Produce: asking for a partition is adding it


class Producer:
    """Writes to partitions that different brokers lead."""

    def __init__(self, cluster: SmallCluster, name: str, replicas: dict[int, list[int]]) -> None:
        self.cluster, self.name = cluster, name
        assigned = [CreatableReplicaAssignment(n, nodes) for n, nodes in replicas.items()]
        new = CreatableTopic(name, -1, -1, assignments=assigned)
        assert cluster.ask(CreateTopicsRequest([new]), 7).topics[0].error_code == 0
        wanted = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[name])
        cluster.ask(wanted, 4)
        cluster.wait(2_000)
        self.coordinator = cluster.ask(wanted, 4).coordinators[0].node_id
        asked = InitProducerIdRequest(name, 60_000)
        answer = cluster.ask(asked, 5, self.coordinator)
        assert answer.error_code == KafkaError.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def produce(self, *partitions: int) -> dict[int, KafkaError]:
        """To all of them at once; what each was told."""
        heard: dict[int, KafkaError] = {}
        for partition in partitions:
            batch = few_batch(
                [(b"k", b"v")], self.cluster.world.now_ms, producer_id=self.producer_id,
                producer_epoch=self.epoch, base_sequence=0, transactional=True,
            )  # fmt: skip
            data = TopicProduceData(
                self.name, partition_data=[PartitionProduceData(partition, batch)]
            )
            request = ProduceRequest(self.name, -1, 10_000, [data])

            def answered(response: object | None, partition: int = partition) -> None:
                if isinstance(response, ProduceResponse):
                    (result,) = response.responses[0].partition_responses
                    heard[partition] = KafkaError(result.error_code)

            leader = max(1, partition)
            self.cluster.world.send(CLIENT, leader, request, answered, 30_000, VERSION)
        for _ in range(1_000):
            if len(heard) < len(partitions):
                self.cluster.wait(1)
        return heard

    def commit(self) -> None:
        request = EndTxnRequest(self.name, self.producer_id, self.epoch, committed=True)
        answer = self.cluster.ask(request, 5, self.coordinator)
        assert answer.error_code == KafkaError.NONE
        self.epoch = answer.producer_epoch

    @property
    def members(self) -> set[TopicPartition]:
        machines = self.cluster.broker(self.coordinator).transaction_ids.machines.values()
        (entry,) = (m.entries[self.name] for m in machines if self.name in m.entries)
        assert entry.now is not None
        return set(entry.now.partitions)


@pytest.fixture(scope="module")
def cluster() -> SmallCluster:
    return SmallCluster()


def test_all_leaders_may_ask_at_once(cluster: SmallCluster) -> None:
    producer = Producer(cluster, "at-once", {n: [max(1, n)] for n in range(4)})
    assert producer.produce(0, *ALL) == dict.fromkeys((0, *ALL), KafkaError.NONE)
    assert producer.members == {TopicPartition("at-once", n) for n in range(4)}


def test_the_next_transaction_begins_while_the_last_one_gets_its_markers(
    cluster: SmallCluster,
) -> None:
    producer = Producer(cluster, "next", {n: [max(1, n)] for n in range(4)})
    for _ in range(5):
        assert producer.produce(*ALL) == dict.fromkeys(ALL, KafkaError.NONE)
        producer.commit()
        # Without a pause: who is sent away hears NOT_ENOUGH_REPLICAS, and tries again much later.


def test_nobody_waits_for_long_for_a_marker_that_cannot_be_written() -> None:
    cluster = SmallCluster()
    producer = Producer(cluster, "stuck", {n: [max(1, n)] for n in range(4)})
    lost = next(n for n in ALL if n != producer.coordinator)
    left = next(n for n in ALL if n not in (lost, producer.coordinator))
    assert producer.produce(lost)[lost] == KafkaError.NONE
    cluster.world.kill(lost)
    producer.commit()
    before_ms = cluster.world.now_ms
    assert producer.produce(left) == {left: KafkaError.NOT_ENOUGH_REPLICAS}, "it is to try again"
    assert MOST_WAIT_MS <= cluster.world.now_ms - before_ms < 5 * MOST_WAIT_MS
    cluster.world.start(lost)
    cluster.wait(30_000)
    assert producer.produce(left) == {left: KafkaError.NONE}
