"""What a producer is told when its transaction is not what it believes."""

from __future__ import annotations

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.produce import errors_in
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sexton.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from sexton.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sexton.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from sexton.records.few import few_batch
from tests.unit.node.small_cluster import CLIENT, SmallCluster

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

    def produce(self, version: int, sequence: int = 0, *, nameless: bool = False) -> KafkaError:
        batch = few_batch(
            [(b"k", b"v")],
            self.cluster.world.now_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = TopicProduceData(self.name, partition_data=[PartitionProduceData(0, batch)])
        request = ProduceRequest(None if nameless else self.name, -1, 10_000, [data])
        answer = self.cluster.ask(request, version, self.leader)
        return KafkaError(answer.responses[0].partition_responses[0].error_code)

    def add_partition(self) -> None:
        """As a producer does that speaks TV1."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(self.name, [0])],
        )
        answer = self.cluster.ask(request, 3, self.coordinator)
        (topic,) = answer.results_by_topic_v3_and_below
        assert topic.results_by_partition[0].partition_error_code == KafkaError.NONE

    def commit(self) -> None:
        request = EndTxnRequest(self.name, self.producer_id, self.epoch, committed=True)
        assert self.cluster.ask(request, 3, self.coordinator).error_code == KafkaError.NONE
        self.cluster.wait(1000)

    def move_to(self, node: int) -> None:
        """All stay in the ISR."""
        order = sorted((1, 2, 3), key=lambda each: each != node)
        moved = ReassignableTopic(self.name, [ReassignablePartition(0, order)])
        self.cluster.ask(AlterPartitionReassignmentsRequest(5_000, topics=[moved]), 0)
        self.cluster.wait(1000)
        self.cluster.ask(ElectLeadersRequest(0, [TopicPartitions(self.name, [0])]), 2)
        self.cluster.wait(1000)
        assert self.cluster.image.partitions[TopicPartition(self.name, 0)].leader == node
        self.leader = node


def test_a_topic_that_nobody_has_is_named_by_what_it_was_asked_for(cluster: SmallCluster) -> None:
    batch = few_batch([(b"k", b"v")], cluster.world.now_ms)
    by_name = TopicProduceData("nobody", partition_data=[PartitionProduceData(0, batch)])
    by_id = TopicProduceData(topic_id=b"\7" * 16, partition_data=[PartitionProduceData(0, batch)])
    expected = {
        12: (by_name, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        13: (by_id, KafkaError.UNKNOWN_TOPIC_ID),
    }
    for version, (asked, error) in expected.items():
        answer = cluster.ask(ProduceRequest(None, -1, 10_000, [asked]), version)
        (topic,) = answer.responses
        assert topic.topic_id == asked.topic_id
        assert [each.error_code for each in topic.partition_responses] == [error]


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


def test_a_transaction_without_a_name_does_not_begin(cluster: SmallCluster) -> None:
    """Nobody would ever end it: no coordinator knows of it."""
    producer = Producer(cluster, "nameless")
    for version in (9, 11, 12):
        error = producer.produce(version, nameless=True)
        assert error == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "as Kafka says"
    log = cluster.broker(producer.leader).replicas.get(TopicPartition("nameless", 0)).log
    assert log.end_offset == 0


def test_what_was_sent_behind_a_batch_does_not_overtake_it(cluster: SmallCluster) -> None:
    """The producer sends several at once: the first may be sent away, and comes again."""
    producer = Producer(cluster, "overtaking")
    assert producer.produce(9, sequence=0) == KafkaError.INVALID_TXN_STATE
    producer.add_partition()
    assert producer.produce(9, sequence=1) == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.produce(9, sequence=0) == KafkaError.NONE
    assert producer.produce(9, sequence=1) == KafkaError.NONE


def test_what_another_leader_has_taken_meanwhile_is_not_waited_for(cluster: SmallCluster) -> None:
    """Who was sent away goes to the new leader, and may come back when this one leads again."""
    producer = Producer(cluster, "moving")
    first = producer.leader
    assert producer.produce(9, sequence=0) == KafkaError.INVALID_TXN_STATE
    producer.add_partition()
    producer.move_to(first % 3 + 1)
    assert producer.produce(9, sequence=0) == KafkaError.NONE
    producer.commit()
    producer.move_to(first)
    producer.add_partition()
    assert producer.produce(9, sequence=1) == KafkaError.NONE


def test_every_transaction_of_tv2_begins_at_sequence_0(cluster: SmallCluster) -> None:
    producer = Producer(cluster, "from-zero")
    assert producer.produce(12, sequence=1) == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.produce(12, sequence=0) == KafkaError.NONE
    assert producer.produce(12, sequence=1) == KafkaError.NONE


def test_where_nothing_was_sent_away_an_older_producer_may_go_on_at_any_sequence(
    cluster: SmallCluster,
) -> None:
    """What it wrote before may be gone: TV1 numbers the records of all its transactions."""
    producer = Producer(cluster, "going-on")
    producer.add_partition()
    assert producer.produce(9, sequence=7) == KafkaError.NONE


def test_who_wants_no_answer_is_answered_only_if_something_went_wrong(
    cluster: SmallCluster,
) -> None:
    producer = Producer(cluster, "no-answer")
    batch = few_batch([(b"k", b"v")], cluster.world.now_ms)
    data = TopicProduceData("no-answer", partition_data=[PartitionProduceData(0, batch)])
    request = ProduceRequest(None, 0, 10_000, [data])
    answers: dict[int, list[object]] = {1: [], 2: [], 3: []}
    for node, heard in answers.items():
        cluster.world.send(CLIENT, node, request, heard.append, 60_000, 12)
    cluster.wait(1000)
    assert answers.pop(producer.leader) == []
    for (answer,) in answers.values():
        assert isinstance(answer, ProduceResponse)
        assert errors_in(answer) == {"NOT_LEADER_OR_FOLLOWER"}
