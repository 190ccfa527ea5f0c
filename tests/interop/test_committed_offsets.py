"""Do we keep committed offsets as Apache Kafka does?

A group, three partitions, and two producers with transactions. They commit plainly and in
transactions, end these, and delete, in any order; after each step Kafka and our machine must give
the same offsets, stable and not, and in the end have the same records in their logs.
"""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import offset_log
from sexton.machines.offset_messages import (
    Answer,
    Append,
    Appended,
    AppendMarker,
    Commit,
    CommittedOffset,
    Delete,
    Event,
    Fetch,
    FetchAnswer,
    Load,
    Marker,
    OffsetRecord,
    WriteMarker,
)
from sexton.machines.offsets import Offsets
from sexton.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from sexton.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from sexton.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from sexton.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from sexton.records import decode
from sexton.records.control import ControlType, first_control_record
from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.waiting import until
from tests.handmade import split
from tests.kafka_connection import GROUP, TRANSACTION, Connection

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

STEPS = 200
SEED = 1
NAME = "offset-keepers"  # of the group, and of what belongs to it
TOPIC = "kept"
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(3))
PRODUCERS = ("offsets-a", "offsets-b")

Offset = int | KafkaError


class Theirs(Connection):
    """A broker, and who its producers are."""

    def prepare(self) -> None:
        until(lambda: self.has_coordinator(NAME, GROUP), "a group coordinator")
        until(lambda: self.has_coordinator(NAME, TRANSACTION), "a transaction coordinator")
        self.producers = {name: until(partial(self.init, name), "a producer") for name in PRODUCERS}

    def init(self, name: str) -> tuple[int, int] | None:
        request = InitProducerIdRequest(name, 600_000)
        answer = self.send(request, 4, InitProducerIdResponse)
        return None if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def commit(self, partition: int, offset: int) -> None:
        wanted = OffsetCommitRequestPartition(partition, offset, -1, "")
        topic = OffsetCommitRequestTopic(TOPIC, partitions=[wanted])
        answer = self.send(OffsetCommitRequest(NAME, topics=[topic]), 7, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == 0

    def commit_in_transaction(self, name: str, partition: int, offset: int) -> None:
        def added() -> bool:
            request = AddOffsetsToTxnRequest(name, *self.producers[name], NAME)
            error = self.send(request, 3, AddOffsetsToTxnResponse).error_code
            assert error in (0, KafkaError.CONCURRENT_TRANSACTIONS)
            return error == 0

        until(added, "the transaction before to be complete")
        wanted = TxnOffsetCommitRequestPartition(partition, offset, -1, "")
        topic = TxnOffsetCommitRequestTopic(TOPIC, [wanted])
        request = TxnOffsetCommitRequest(name, NAME, *self.producers[name], topics=[topic])
        answer = self.send(request, 3, TxnOffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == 0

    def end(self, name: str, commit: bool) -> None:
        request = EndTxnRequest(name, *self.producers[name], commit)
        assert self.send(request, 4, EndTxnResponse).error_code == 0

    def delete(self, partition: int) -> None:
        topic = OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(partition)])
        answer = self.send(OffsetDeleteRequest(NAME, [topic]), 0, OffsetDeleteResponse)
        assert answer.error_code == 0 and answer.topics[0].partitions[0].error_code == 0

    def fetch(self, stable: bool) -> list[Offset]:
        topic = OffsetFetchRequestTopic(TOPIC, [p.partition for p in PARTITIONS])
        request = OffsetFetchRequest(NAME, [topic], require_stable=stable)
        found = self.send(request, 7, OffsetFetchResponse).topics[0].partitions
        return [KafkaError(p.error_code) if p.error_code else p.committed_offset for p in found]

    def gives(self, stable: bool, wanted: list[Offset]) -> bool:
        return self.fetch(stable) == wanted


class Ours:
    """A machine in a world in which everything happens at once."""

    def __init__(self) -> None:
        self.offsets = Offsets()
        self.offsets.handle(Load([]), 0)
        self.written: list[OffsetRecord] = []

    def tell(self, event: Event) -> list[Answer]:
        answers: list[Answer] = []
        waiting = [event]
        while waiting:
            for effect in self.offsets.handle(waiting.pop(), 0):
                if isinstance(effect, Append):
                    self.written += effect.records
                if isinstance(effect, Append | AppendMarker):
                    waiting.append(Appended(effect.token))
                if isinstance(effect, Answer):
                    answers.append(effect)
            self.offsets.check()
        return answers

    def fetch(self, stable: bool) -> list[Offset]:
        (answer,) = self.tell(Fetch("", NAME, PARTITIONS, stable))
        assert isinstance(answer.answer, FetchAnswer)
        return [
            found.error or (found.committed.offset if found.committed is not None else -1)
            for found in answer.answer.offsets
        ]


def step(theirs: Theirs, ours: Ours, ongoing: set[str], random: Random) -> str:
    """One thing that happens to both."""
    partition, offset = random.choice(PARTITIONS), random.randrange(1000)
    name = random.choice(PRODUCERS)
    producer_id, epoch = theirs.producers[name]
    kind = random.choice(["commit", "transaction", "transaction", "end", "end", "delete"])
    if kind == "commit":
        theirs.commit(partition.partition, offset)
        ours.tell(Commit("", NAME, ((partition, CommittedOffset(offset)),)))
        return f"commit {partition}={offset}"
    if kind == "transaction":
        theirs.commit_in_transaction(name, partition.partition, offset)
        ours.tell(Commit("", NAME, ((partition, CommittedOffset(offset)),), producer_id, epoch))
        ongoing.add(name)
        return f"{name} commits {partition}={offset}"
    if kind == "end" and name in ongoing:
        commit = random.random() < 0.6
        theirs.end(name, commit)
        ours.tell(WriteMarker("", producer_id, epoch, 0, commit))
        ongoing.discard(name)
        return f"{name} {'commits' if commit else 'aborts'}"
    if kind == "delete":
        theirs.delete(partition.partition)
        ours.tell(Delete("", NAME, (partition,)))
        return f"delete {partition}"
    return "nothing"


def test_offsets_come_to_the_same(kafka4: ApacheKafka) -> None:
    """(Kafka 3.9 has another coordinator, which writes no tombstone for what is only pending.)"""
    kafka = kafka4
    kafka.admin.create_topic(TOPIC, len(PARTITIONS))
    random, ours, ongoing, story = Random(SEED), Ours(), set[str](), list[str]()
    with Theirs(kafka.bootstrap) as theirs:
        theirs.prepare()
        theirs.commit(0, 0)
        ours.tell(Commit("", NAME, ((PARTITIONS[0], CommittedOffset(0)),)))
        for _ in range(STEPS):
            story.append(step(theirs, ours, ongoing, random))
            for stable in (True, False):
                wanted = ours.fetch(stable)
                until(  # the marker is on its way for a moment
                    partial(theirs.gives, stable, wanted),
                    "the same offsets",
                    explain=lambda: "\n".join(story[-30:]),
                )
        last = theirs.fetch(False)
    kafka.stop(1)
    log = [entry for entry in log_of(kafka) if isinstance(entry, Marker) or entry.group == NAME]
    records = [_essence(entry) for entry in log if isinstance(entry, OffsetRecord)]
    assert records == [_essence(record) for record in ours.written]
    reader = Ours()
    reader.tell(Load(log))
    assert reader.fetch(False) == last, "their log, read by us"
    kafka.start(1)
    kafka.admin.delete_topic(TOPIC)


def log_of(kafka: ApacheKafka) -> list[OffsetRecord | Marker]:
    """What a new leader of their partition would be given."""
    entries: list[OffsetRecord | Marker] = []
    for segment in sorted((kafka.data_directory() / "__consumer_offsets-0").glob("*.log")):
        for header, section in split(segment.read_bytes()):
            data = header.pack() + section
            if header.is_control:
                marker = first_control_record(data, segment.name)
                assert marker is not None
                entries.append(Marker(header.producer_id, marker.type == ControlType.COMMIT))
                continue
            producer_id = header.producer_id if header.is_transactional else -1
            for row in decode(data).records():
                record = offset_log.from_bytes(row.key, row.value, segment.name, producer_id)
                if record is not None:
                    entries.append(record)
    return entries


def _essence(record: OffsetRecord) -> tuple[TopicPartition, int | None, int]:
    offset = record.value.offset if record.value is not None else None
    return record.partition, offset, record.producer_id
