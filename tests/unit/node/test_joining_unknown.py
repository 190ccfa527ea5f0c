"""A partition that the coordinator has not heard of does not join a transaction.

News of a topic reach one broker before the other. At the end of a transaction, a partition that is
not there was deleted, and gets no marker; so it must have been there when it joined.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.coordinators import CONSUMER_OFFSETS, stored_batches
from sexton.node.outside import CONTROLLER
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
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
    TopicProduceData,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sexton.records.few import few_batch
from tests.unit.node.small_cluster import SmallCluster

ID, GROUP, KNOWN, NEW = "writer", "readers", "orders", "payments"
GROUPS, TRANSACTIONS = 0, 1  # kinds of keys that a coordinator is looked for
NEWS_MS = 10_000  # until everybody has heard; a heartbeat that was lost is not missed at once


class Writer:
    """A TV2 producer; the topics that it writes to are not at its coordinator's."""

    def __init__(self) -> None:
        self.cluster = cluster = SmallCluster()
        self.coordinator = self.find(ID, TRANSACTIONS, 1)
        self.leader = next(node for node in (1, 2, 3) if node != self.coordinator)
        self.create(KNOWN)
        cluster.wait(NEWS_MS)
        answer = cluster.ask(InitProducerIdRequest(ID, 60_000), 5, self.coordinator)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def find(self, key: str, kind: int, asked: int) -> int:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        self.cluster.ask(request, 4, asked)
        self.cluster.wait(1_000)
        (found,) = self.cluster.ask(request, 4, asked).coordinators
        assert found.error_code == KafkaError.NONE
        return found.node_id

    def create(self, topic: str) -> None:
        new = CreatableTopic(topic, -1, -1, [CreatableReplicaAssignment(0, [self.leader])])
        answer = self.cluster.ask(CreateTopicsRequest([new]), 7, self.leader)
        assert answer.topics[0].error_code == KafkaError.NONE

    def keep_news_from_the_coordinator(self) -> None:
        self.cluster.world.network.cut(CONTROLLER, self.coordinator)

    def let_news_through(self) -> None:
        self.cluster.world.network.heal()
        self.cluster.wait(NEWS_MS)

    def write(self, topic: str) -> KafkaError:
        batch = few_batch(
            [(b"k", b"v")], self.cluster.world.now_ms, producer_id=self.producer_id,
            producer_epoch=self.epoch, base_sequence=0, transactional=True,
        )  # fmt: skip
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        answer = self.cluster.ask(ProduceRequest(ID, -1, 10_000, [data]), 12, self.leader)
        return KafkaError(answer.responses[0].partition_responses[0].error_code)

    def commit_offset(self, at: int) -> KafkaError:
        topics = [TxnOffsetCommitRequestTopic(KNOWN, [TxnOffsetCommitRequestPartition(0, 5)])]
        request = TxnOffsetCommitRequest(ID, GROUP, self.producer_id, self.epoch, topics=topics)
        answer = self.cluster.ask(request, 5, at)
        return KafkaError(answer.topics[0].partitions[0].error_code)

    def add(self, *topics: str) -> dict[str, KafkaError]:
        """As a client before TV2 does; what it is told about each."""
        wanted = [AddPartitionsToTxnTopic(topic, [0]) for topic in topics]
        request = AddPartitionsToTxnRequest([], ID, self.producer_id, self.epoch, wanted)
        answer = self.cluster.ask(request, 3, self.coordinator)
        return {
            topic.name: KafkaError(topic.results_by_partition[0].partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
        }

    def commit(self) -> None:
        request = EndTxnRequest(ID, self.producer_id, self.epoch, committed=True)
        answer = self.cluster.ask(request, 5, self.coordinator)
        assert answer.error_code == KafkaError.NONE
        self.cluster.wait(1_000)

    @property
    def members(self) -> set[str]:
        machines = self.cluster.broker(self.coordinator).transaction_ids.machines.values()
        (entry,) = (m.entries[ID] for m in machines if ID in m.entries)
        assert entry.now is not None
        return {partition.topic for partition in entry.now.partitions}

    def log(self, topic: str) -> str:
        log = self.cluster.broker(self.leader).replicas.get(TopicPartition(topic, 0)).log
        headers = [header for header, _batch in stored_batches(log)]
        return " ".join("marker" if header.is_control else "data" for header in headers)


def test_a_write_to_a_topic_of_which_the_coordinator_has_not_heard_is_to_come_again() -> None:
    writer = Writer()
    writer.keep_news_from_the_coordinator()
    writer.create(NEW)
    assert writer.write(NEW) == KafkaError.NOT_ENOUGH_REPLICAS
    assert writer.members == set()
    writer.let_news_through()
    assert writer.write(NEW) == KafkaError.NONE
    writer.commit()
    assert writer.log(NEW) == "data marker"


def test_nor_do_offsets_join_before_the_coordinator_has_heard_of_their_topic() -> None:
    writer = Writer()
    writer.keep_news_from_the_coordinator()
    of_group = writer.find(GROUP, GROUPS, writer.leader)
    assert of_group != writer.coordinator, "it would have heard"
    assert writer.commit_offset(of_group) == KafkaError.COORDINATOR_NOT_AVAILABLE
    writer.let_news_through()
    assert writer.commit_offset(of_group) == KafkaError.NONE
    assert writer.members == {CONSUMER_OFFSETS}


def test_one_that_is_not_there_keeps_the_others_of_its_request_out() -> None:
    writer = Writer()
    unknown, not_tried = KafkaError.UNKNOWN_TOPIC_OR_PARTITION, KafkaError.OPERATION_NOT_ATTEMPTED
    assert writer.add(KNOWN, NEW) == {KNOWN: not_tried, NEW: unknown}
    assert writer.members == set()
    assert writer.add(KNOWN) == {KNOWN: KafkaError.NONE}
