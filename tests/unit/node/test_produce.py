"""What a producer is told when its transaction is not what it believes."""

from __future__ import annotations

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.records.few import few_batch
from tests.unit.node.small_cluster import SmallCluster

TRANSACTION = 1  # the kind of key that a coordinator is looked for


@pytest.fixture(scope="module")
def cluster() -> SmallCluster:
    return SmallCluster()


class Producer:
    """With a topic of its own, of the same name as its transactions."""

    def __init__(self, cluster: SmallCluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        new = CreatableTopic(name, num_partitions=1, replication_factor=3)
        assert cluster.ask(CreateTopicsRequest([new]), 7).topics[0].error_code == 0
        cluster.wait(1000)
        asked = MetadataRequest([MetadataRequestTopic(name=name)])
        self.leader = cluster.ask(asked, 12).topics[0].partitions[0].leader_id
        wanted = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[name])
        self.coordinator = cluster.ask(wanted, 4).coordinators[0].node_id
        self.producer_id, self.epoch = self.init()

    def init(self) -> tuple[int, int]:
        answer = self.cluster.ask(InitProducerIdRequest(self.name, 60_000), 5, self.coordinator)
        assert answer.error_code == KafkaError.NONE
        return answer.producer_id, answer.producer_epoch

    def produce(self, version: int) -> KafkaError:
        batch = few_batch(
            [(b"k", b"v")],
            self.cluster.world.now_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        data = TopicProduceData(self.name, partition_data=[PartitionProduceData(0, batch)])
        request = ProduceRequest(self.name, -1, 10_000, [data])
        answer = self.cluster.ask(request, version, self.leader)
        return KafkaError(answer.responses[0].partition_responses[0].error_code)


def test_a_fenced_producer_hears_of_its_epoch(cluster: SmallCluster) -> None:
    producer = Producer(cluster, "fenced")
    assert producer.init() == (producer.producer_id, producer.epoch + 1)
    for version in (9, 11, 12):
        assert producer.produce(version) == KafkaError.INVALID_PRODUCER_EPOCH


def test_a_partition_outside_the_transaction_is_refused_in_words_that_the_client_knows(
    cluster: SmallCluster,
) -> None:
    producer = Producer(cluster, "outside")
    assert producer.produce(9) == KafkaError.INVALID_TXN_STATE
    assert producer.produce(10) == KafkaError.INVALID_TXN_STATE
    assert producer.produce(11) == KafkaError.TRANSACTION_ABORTABLE
    assert producer.produce(12) == KafkaError.NONE, "from here on, asking is adding"
