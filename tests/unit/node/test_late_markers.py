"""A marker that was under way for long does not end the transaction after its own.

The first copy is held up, the coordinator sends another, and the producer goes on; then the first
one arrives. Each test is run once more without the leader's question, and must then find the harm.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines.markers import Markers, Stamp
from sexton.node.coordinators import CONSUMER_OFFSETS, java_hash, stored_batches
from sexton.node.messages import WriteMarkers
from sexton.node.outside import LATEST
from sexton.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sexton.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
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
from sexton.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from sexton.records.control import ControlType, first_control_record
from sexton.records.few import few_batch
from tests.unit.node.small_cluster import CLIENT, SmallCluster

ID, GROUP, TOPIC = "writer", "readers", "orders"
ORDERS = TopicPartition(TOPIC, 0)
HELD_MS = 300_000
TRANSACTION = 1  # the kind of key that a coordinator is looked for
TV1, TV2 = 1, 2


class Writer:
    """A producer of one version, and the logs that it writes to: not at its coordinator's."""

    def __init__(self, version: int = TV1, replicas: int = 1) -> None:
        self.cluster = cluster = SmallCluster()
        self.version = version
        self.coordinator = self._find(ID, TRANSACTION)
        others = [node for node in (1, 2, 3) if node != self.coordinator]
        self.leader = others[0]
        assigned = [CreatableReplicaAssignment(0, others[:replicas])]
        options = [CreatableTopicConfig("min.insync.replicas", str(replicas))]
        new = CreatableTopic(TOPIC, -1, -1, assigned, options)
        assert cluster.ask(CreateTopicsRequest([new]), 7).topics[0].error_code == 0
        cluster.wait(5_000)
        answer = cluster.ask(InitProducerIdRequest(ID, 15 * 60_000), 4, self.coordinator)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0

    def _find(self, name: str, kind: int) -> int:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
        self.cluster.ask(request, 4)
        self.cluster.wait(5_000)
        (found,) = self.cluster.ask(request, 4).coordinators
        assert found.error_code == KafkaError.NONE
        return found.node_id

    def write(self) -> None:
        """One record, in a transaction."""
        if self.version == TV1:
            topics = [AddPartitionsToTxnTopic(TOPIC, [0])]
            request = AddPartitionsToTxnRequest([], ID, self.producer_id, self.epoch, topics)
            answer = self.cluster.ask(request, 3, self.coordinator)
            (one,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            assert one.partition_error_code == KafkaError.NONE
        batch = few_batch(
            [(b"k", b"v")], self.cluster.world.now_ms, producer_id=self.producer_id,
            producer_epoch=self.epoch, base_sequence=self.sequence, transactional=True,
        )  # fmt: skip
        data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])
        produce = ProduceRequest(ID, -1, 10_000, [data])
        told = self.cluster.ask(produce, 11 if self.version == TV1 else 12, self.leader)
        (result,) = told.responses[0].partition_responses
        assert result.error_code == KafkaError.NONE
        self.sequence += 1

    def end(self, commit: bool) -> None:
        request = EndTxnRequest(ID, self.producer_id, self.epoch, commit)
        answer = self.cluster.ask(request, 3 if self.version == TV1 else 5, self.coordinator)
        assert answer.error_code == KafkaError.NONE
        if self.version == TV2:
            self.epoch, self.sequence = answer.producer_epoch, 0
        self.cluster.wait(1_000)

    def end_with_a_late_copy(self, commit: bool) -> None:
        """The first marker is held up, the second one is written; the transaction is complete."""
        holds = self.cluster.world.network.holds
        holds[WriteMarkers] = HELD_MS
        self.end(commit)
        del holds[WriteMarkers]
        assert self.state.startswith("Prepare")
        self.cluster.wait(60_000)  # longer than a request may take
        assert self.state.startswith("Complete")

    @property
    def state(self) -> str:
        machines = self.cluster.broker(self.coordinator).transaction_ids.machines.values()
        (entry,) = (m.entries[ID] for m in machines if ID in m.entries)
        assert entry.now is not None
        return entry.now.status.title

    @property
    def log(self) -> str:
        """`data` and markers, in their order."""
        log = self.cluster.broker(self.leader).replicas.by_partition[ORDERS].log
        kinds = []
        for header, batch in stored_batches(log):
            control = first_control_record(batch, "") if header.is_control else None
            kinds.append(ControlType(control.type).name.lower() if control else "data")
        return " ".join(kinds)


@pytest.fixture(params=[True, False], ids=["asked", "not asked"])
def protected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(Markers, "is_late", lambda _self, _producer_id, _stamp: False)
    return bool(request.param)


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_late_copy_does_not_end_the_next_transaction(version: int, protected: bool) -> None:
    writer = Writer(version)
    writer.write()
    writer.end_with_a_late_copy(commit=False)
    writer.write()
    writer.cluster.wait(HELD_MS)
    writer.end(commit=True)
    right, wrong = "data abort data commit", "data abort data abort commit"
    assert writer.log == (right if protected else wrong)


@pytest.mark.parametrize("asks", [True, False], ids=["asked for its term", "not asked"])
def test_nor_after_the_leader_has_started_anew(asks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows no numbers then, but its term is another one."""
    right_one = Markers.is_late

    def of_any_term(self: Markers, producer_id: int, stamp: Stamp) -> bool:
        return right_one(self, producer_id, replace(stamp, leader_epoch=self.leader_epoch))

    if not asks:
        monkeypatch.setattr(Markers, "is_late", of_any_term)
    writer = Writer()
    writer.write()
    writer.end_with_a_late_copy(commit=False)
    writer.cluster.kill(writer.leader)
    writer.cluster.world.start(writer.leader)
    writer.cluster.wait(30_000)
    writer.write()
    writer.cluster.wait(HELD_MS)
    writer.end(commit=True)
    right, wrong = "data abort data commit", "data abort data abort commit"
    assert writer.log == (right if asks else wrong)


def test_nor_after_another_broker_has_become_the_coordinator(protected: bool) -> None:
    """Until the new one has written something for the producer, the log does not fence the old."""
    writer = Writer()
    writer.write()
    writer.end_with_a_late_copy(commit=False)
    writer.cluster.kill(writer.coordinator)
    writer.cluster.world.start(writer.coordinator)
    writer.cluster.wait(30_000)
    writer.coordinator = _leader_of_state(writer)
    writer.write()
    writer.cluster.wait(HELD_MS)
    writer.end(commit=True)
    right, wrong = "data abort data commit", "data abort data abort commit"
    assert writer.log == (right if protected else wrong)


def _leader_of_state(writer: Writer) -> int:
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[ID])
    return writer.cluster.ask(request, 4, writer.leader).coordinators[0].node_id


def test_a_marker_is_sent_again_to_a_leader_of_a_new_term() -> None:
    """Who refuses a term that is over must hear of the transaction in its own."""
    writer = Writer()
    writer.write()
    writer.cluster.world.network.holds[WriteMarkers] = HELD_MS
    writer.end(commit=True)
    writer.cluster.kill(writer.leader)
    writer.cluster.world.start(writer.leader)
    writer.cluster.wait(30_000)
    assert writer.log == "data"
    writer.cluster.world.network.heal()
    writer.cluster.wait(2 * HELD_MS)
    assert (writer.log, writer.state) == ("data commit", "CompleteCommit")


# ── offsets in transactions ──


class Committer(Writer):
    def __init__(self) -> None:
        super().__init__()
        self.of_group = self._find(GROUP, 0)

    def commit_offset(self, offset: int) -> None:
        add = AddOffsetsToTxnRequest(ID, self.producer_id, self.epoch, GROUP)
        assert self.cluster.ask(add, 3, self.coordinator).error_code == KafkaError.NONE
        one = TxnOffsetCommitRequestPartition(0, offset, -1, "")
        topics = [TxnOffsetCommitRequestTopic(TOPIC, [one])]
        request = TxnOffsetCommitRequest(ID, GROUP, self.producer_id, self.epoch, topics=topics)
        answer = self.cluster.ask(request, 3, self.of_group)
        assert answer.topics[0].partitions[0].error_code == KafkaError.NONE

    def committed(self) -> int:
        topic = OffsetFetchRequestTopics(TOPIC, bytes(16), [0])
        group = OffsetFetchRequestGroup(GROUP, topics=[topic])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        (answer,) = self.cluster.ask(request, 9, self.of_group).groups
        return answer.topics[0].partitions[0].committed_offset


def test_offsets_of_a_transaction_that_is_aborted_are_not_committed_by_it(protected: bool) -> None:
    writer = Committer()
    assert writer.of_group != writer.coordinator, "markers go over the network"
    writer.commit_offset(5)
    writer.end_with_a_late_copy(commit=True)
    writer.commit_offset(9)
    writer.cluster.wait(HELD_MS)
    writer.end(commit=False)
    assert writer.committed() == (5 if protected else 9)


# ── while the leader asks the coordinator about the next transaction ──


def send_one_of_an_earlier_coordinator(writer: Writer, at: TopicPartition) -> list[KafkaError]:
    """It arrives while the leader waits for the coordinator's word; what it is told."""
    answers: list[KafkaError] = []

    def answered(answer: object | None) -> None:
        assert isinstance(answer, WriteTxnMarkersResponse)
        answers.append(KafkaError(answer.markers[0].topics[0].partitions[0].error_code))

    holds = writer.cluster.world.network.holds
    holds[WriteTxnMarkersRequest], holds[AddPartitionsToTxnRequest] = 500, 1_000
    topics = [WritableTxnMarkerTopic(at.topic, [at.partition])]
    marker = WritableTxnMarker(writer.producer_id, writer.epoch, True, topics, -1)
    leader = writer.cluster.image.partitions[at].leader
    request = WriteTxnMarkersRequest([marker])
    writer.cluster.world.send(CLIENT, leader, request, answered, 60_000, 2)
    return answers


def test_one_that_the_log_refuses_ends_nothing() -> None:
    writer = Writer(TV2)
    writer.write()
    writer.end(commit=True)
    answers = send_one_of_an_earlier_coordinator(writer, ORDERS)
    writer.write()
    assert answers == [KafkaError.TRANSACTION_COORDINATOR_FENCED]
    assert writer.log == "data commit data"


def test_nor_one_that_is_refused_where_offsets_are() -> None:
    writer = Committer()
    writer.commit_offset(5)
    writer.end(commit=True)
    of_group = TopicPartition(CONSUMER_OFFSETS, java_hash(GROUP) % 2)
    answers = send_one_of_an_earlier_coordinator(writer, of_group)
    writer.commit_offset(9)
    assert answers == [KafkaError.TRANSACTION_COORDINATOR_FENCED]


# ── how it is answered ──


class Leader:
    """Is sent markers by hand, for a transaction in a partition with two replicas."""

    def __init__(self) -> None:
        self.writer = Writer(replicas=2)
        self.cluster = self.writer.cluster
        self.writer.write()
        (self.follower,) = {1, 2, 3} - {self.writer.leader, self.writer.coordinator}
        self.answers: list[KafkaError] = []

    def request(self) -> WriteTxnMarkersRequest:
        topics = [WritableTxnMarkerTopic(TOPIC, [0])]
        writer = self.writer
        marker = WritableTxnMarker(writer.producer_id, writer.epoch, True, topics, 50)
        return WriteTxnMarkersRequest([marker])

    def send(self, number: int, term: int = 0) -> None:
        """`term` is added to the leader's own."""
        epoch = self.cluster.image.partitions[ORDERS].leader_epoch + term
        message = WriteMarkers(self.request(), number, ((ORDERS, epoch),))
        self.cluster.world.send(CLIENT, self.writer.leader, message, self._answered, 60_000, LATEST)
        self.cluster.wait(1_000)

    def _answered(self, answer: object | None) -> None:
        if isinstance(answer, WriteTxnMarkersResponse):  # else its time is over
            (one,) = answer.markers[0].topics[0].partitions
            self.answers.append(KafkaError(one.error_code))


def test_a_copy_is_answered_when_the_marker_is_replicated() -> None:
    leader = Leader()
    leader.cluster.world.network.cut(leader.follower, leader.writer.leader)
    leader.send(5)
    leader.send(5)
    assert (leader.writer.log, leader.answers) == ("data commit", [])
    leader.cluster.world.network.heal()
    leader.cluster.wait(45_000)  # a fetch that was lost is not missed before
    assert (leader.writer.log, leader.answers) == ("data commit", [KafkaError.NONE] * 2)


def test_a_marker_that_the_log_refused_is_not_taken_for_written() -> None:
    leader = Leader()
    leader.cluster.kill(leader.follower)
    leader.send(5)
    assert (leader.writer.log, leader.answers) == ("data", [KafkaError.NOT_ENOUGH_REPLICAS])
    leader.cluster.world.start(leader.follower)
    leader.cluster.wait(60_000)
    leader.send(5)
    assert (leader.writer.log, leader.answers[1:]) == ("data commit", [KafkaError.NONE])


def test_one_for_another_term_is_refused() -> None:
    leader = Leader()
    leader.send(5, term=-1)
    leader.send(5, term=+1)
    fenced, unknown = KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH
    assert (leader.writer.log, leader.answers) == ("data", [fenced, unknown])


def test_one_that_comes_by_kafkas_protocol_is_written_whenever_it_comes() -> None:
    """`kafka-transactions abort` knows no numbers, and has to end what hangs."""
    leader = Leader()
    leader.send(5)
    for _ in range(2):
        leader.cluster.ask(leader.request(), 2, leader.writer.leader)
    assert leader.writer.log == "data commit commit commit"
