"""Offsets in a transaction: who adds the group's partition to it, and when do they count?"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sexton.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.node.small_cluster import SmallCluster

GROUP, TOPIC, ID = "readers", "orders", "writer"
OLDER, NEWER = 3, 5  # TxnOffsetCommit of a producer that speaks TV1, and TV2


class Writer:
    def __init__(self, knows_group: bool = True) -> None:
        self.cluster = SmallCluster()
        self.cluster.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)]), 5)
        self.of_group = self._find(GROUP, 0) if knows_group else -1
        self.of_transaction = self._find(ID, 1)
        self.cluster.wait(5_000)
        request = InitProducerIdRequest(ID, 60_000)
        answer = self.cluster.ask(request, 4, self.of_transaction)
        assert answer.error_code == 0
        self.producer = (answer.producer_id, answer.producer_epoch)

    def add_offsets(self) -> KafkaError:
        request = AddOffsetsToTxnRequest(ID, *self.producer, GROUP)
        return KafkaError(self.cluster.ask(request, 3, self.of_transaction).error_code)

    def find_group(self) -> None:
        self.of_group = self._find(GROUP, 0)
        self.cluster.wait(5_000)

    def _find(self, name: str, kind: int) -> int:
        for _ in range(100):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
            (found,) = self.cluster.ask(request, 4).coordinators
            if not found.error_code:
                return found.node_id
            self.cluster.wait(500)
        raise AssertionError("no coordinator")

    def commit(self, offset: int, version: int) -> KafkaError:
        one = TxnOffsetCommitRequestPartition(0, offset, -1, "")
        topics = [TxnOffsetCommitRequestTopic(TOPIC, [one])]
        request = TxnOffsetCommitRequest(ID, GROUP, *self.producer, topics=topics)
        answer = self.cluster.ask(request, version, self.of_group)
        return KafkaError(answer.topics[0].partitions[0].error_code)

    def end(self, commit: bool) -> None:
        request = EndTxnRequest(ID, *self.producer, commit)
        answer = self.cluster.ask(request, 5, self.of_transaction)
        assert answer.error_code == 0
        self.producer = (answer.producer_id, answer.producer_epoch)
        self.cluster.wait(1_000)

    def committed(self) -> int | KafkaError:
        topic = OffsetFetchRequestTopics(TOPIC, bytes(16), [0])
        group = OffsetFetchRequestGroup(GROUP, topics=[topic])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        (answer,) = self.cluster.ask(request, 9, self.of_group).groups
        (found,) = answer.topics[0].partitions
        return KafkaError(found.error_code) if found.error_code else found.committed_offset


def test_an_older_producer_names_a_group_that_nobody_has_looked_for() -> None:
    """Its partition is made then: such a producer looks for the group's coordinator only later."""
    writer = Writer(knows_group=False)
    assert "__consumer_offsets" not in writer.cluster.image.topics
    assert writer.add_offsets() is KafkaError.NONE
    writer.find_group()
    assert writer.commit(5, OLDER) is KafkaError.NONE
    assert writer.committed() is KafkaError.UNSTABLE_OFFSET_COMMIT
    writer.end(commit=True)
    assert writer.committed() == 5


def test_a_newer_producer_leaves_it_to_us() -> None:
    writer = Writer()
    assert writer.commit(5, NEWER) is KafkaError.NONE
    assert writer.committed() is KafkaError.UNSTABLE_OFFSET_COMMIT
    assert writer.commit(6, NEWER) is KafkaError.NONE
    writer.end(commit=True)
    assert writer.committed() == 6
    assert writer.commit(9, NEWER) is KafkaError.NONE
    writer.end(commit=False)
    assert writer.committed() == 6


def test_an_older_one_has_to_say_so_first() -> None:
    """Negative control of the above: without the partition no marker would ever come."""
    writer = Writer()
    assert writer.commit(5, OLDER) is KafkaError.INVALID_TXN_STATE
    assert writer.committed() == -1


def test_a_producer_of_an_epoch_that_is_over_is_fenced() -> None:
    writer = Writer()
    zombie = writer.producer
    assert writer.commit(5, NEWER) is KafkaError.NONE
    writer.end(commit=True)
    writer.producer = zombie
    assert writer.commit(1, NEWER) is KafkaError.INVALID_PRODUCER_EPOCH
    assert writer.committed() == 5


def test_they_are_kept_with_the_id_of_their_topic() -> None:
    """So that they do not pass to the next one of its name; the request has no room for it."""
    writer = Writer()
    assert writer.commit(5, NEWER) is KafkaError.NONE
    writer.end(commit=True)
    machines = writer.cluster.broker(writer.of_group).offsets.machines.values()
    (kept,) = (m.table.committed[GROUP] for m in machines if GROUP in m.table.committed)
    topic_id = writer.cluster.image.topics[TOPIC].topic_id
    assert kept[TopicPartition(TOPIC, 0)].value.topic_id.hex() == topic_id
