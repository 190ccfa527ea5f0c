"""What a task of a state store asks of Kafka, call by call.

    new epoch ── the group's offset ── bounds of the changelog ── read ── a transaction

These are the calls that `sexton.stores` makes, with the same versions and the same meaning of each
error, so that the machine of a task hears here what it would hear anywhere. A transaction is either
announced (AddPartitionsToTxn and AddOffsetsToTxn first) or implied (KIP-890), as the run says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines.stores_events import Bounds, FindBounds
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE
from sexton.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sexton.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sexton.protocol.own_messages import AskedTopic, DescribeReplicasRequest, ReplicaOffsets
from sexton.records.few import KeyAndValue
from sexton.sim.clients import Sequence, batch_of, produce_request, produced
from sexton.sim.conversations import Talk, Talking
from sexton.sim.transactors import TV1, TV2
from sexton.sim.truth import fetched

GROUP = "counter"  # the application's
TRANSACTION_MS = 300_000
CHUNK_BYTES = 16_384
UNSTABLE = frozenset({KafkaError.UNSTABLE_OFFSET_COMMIT})


@dataclass(frozen=True, slots=True)
class Rows:
    """What a read_committed consumer is shown in [start, next), and what the leader said then."""

    start: int
    next: int
    records: list[tuple[int, bytes, bytes | None]]  # offset, key, value
    high_watermark: int
    leader_epoch: int  # of the last batch; -1: there is none
    first_epoch: int
    asked_ms: int


@dataclass(frozen=True, slots=True)
class Member:
    """Who commits, for the group."""

    member_id: str
    generation: int


@dataclass(slots=True)
class Producer:
    """The transactions of one task, one after the other."""

    client: Talking
    transactional_id: str
    version: int
    producer_id: int = -1
    epoch: int = -1
    _sequences: dict[TopicPartition, Sequence] = field(default_factory=dict)

    @property
    def _state(self) -> TopicPartition:
        return self.client.coordinator(TRANSACTION_STATE, self.transactional_id)

    def initialise(self) -> Talk[None]:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_MS
        )
        answer = yield from self.client.asked(self._state, request, 5, _code)
        self._take(answer)

    def _take(self, answer: Any) -> None:
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences = {}

    def send(self, batches: dict[TopicPartition, list[KeyAndValue]]) -> Talk[dict[Any, range]]:
        """For each partition, from the first record to after the last."""
        landed: dict[TopicPartition, range] = {}
        if self.version == TV1:
            yield from self._announce(list(batches))
        for at, records in batches.items():
            fresh = Sequence(self.producer_id, self.epoch)
            sequence = self._sequences.setdefault(at, fresh)
            batch = batch_of(records, sequence, self.client.world.now_ms, transactional=True)
            request = produce_request(at, batch, self.transactional_id)
            version = 12 if self.version == TV2 else 11
            answer = yield from self.client.asked(at, request, version, _produce_code)
            sequence.next += len(records)
            first = produced(answer).base_offset
            landed[at] = range(first, first + len(records))
        return landed

    def _announce(self, partitions: list[TopicPartition]) -> Talk[None]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(at.topic, [at.partition]) for at in partitions
            ],
        )
        yield from self.client.asked(self._state, request, 3, _announced_code)

    def send_offset(self, member: Member, at: TopicPartition, offset: int) -> Talk[None]:
        if self.version == TV1:
            adding = AddOffsetsToTxnRequest(
                self.transactional_id, self.producer_id, self.epoch, GROUP
            )
            yield from self.client.asked(self._state, adding, 3, _code)
        entry = TxnOffsetCommitRequestPartition(at.partition, offset, -1, "")
        request = TxnOffsetCommitRequest(
            self.transactional_id, GROUP, self.producer_id, self.epoch,
            member.generation, member.member_id,
            topics=[TxnOffsetCommitRequestTopic(at.topic, [entry])],
        )  # fmt: skip
        group = self.client.coordinator(CONSUMER_OFFSETS, GROUP)
        version = 5 if self.version == TV2 else 3
        yield from self.client.asked(group, request, version, _first_code)

    def commit(self) -> Talk[None]:
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, True)
        version = 5 if self.version == TV2 else 3
        answer = yield from self.client.asked(self._state, request, version, _code)
        if self.version == TV2:  # each has its own epoch
            self._take(answer)


# ── questions ──


def stable_offset(client: Talking, at: TopicPartition) -> Talk[int | None]:
    """The group's, once no transaction hangs over it; None: it has committed nothing."""
    asked = OffsetFetchRequestTopics(at.topic, partition_indexes=[at.partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(GROUP, topics=[asked])], require_stable=True
    )
    group = client.coordinator(CONSUMER_OFFSETS, GROUP)
    client.ask_anew(group)
    answer = yield from client.asked(group, request, 9, _fetched_code, UNSTABLE)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return None if offset < 0 else offset


def bounds(client: Talking, at: TopicPartition, asked: FindBounds) -> Talk[Bounds]:
    latest = ListOffsetsPartition(at.partition, -1, -1)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(at.topic, [latest])])

    def code(answer: Any) -> int:
        """A broker that has less than was written, or led before that, does not lead any more."""
        if _first_code(answer):
            return _first_code(answer)
        told = answer.topics[0].partitions[0]
        late = told.offset < asked.least_end or told.leader_epoch < asked.least_epoch
        return KafkaError.NOT_LEADER_OR_FOLLOWER if late else 0

    client.ask_anew(at)
    answer = yield from client.asked(at, request, 7, code)
    told = answer.topics[0].partitions[0]
    high_watermark: int = told.offset
    standing = yield from _standing(client, at)
    parts_at = None
    if asked.leader_epoch >= 0 and asked.position >= 0:
        parts_at = yield from _parts_at(client, at, asked.leader_epoch)
    log_end = max(standing.log_end, high_watermark)
    return Bounds(
        standing.log_start, high_watermark, log_end, standing.mtro, parts_at, told.leader_epoch
    )


def _standing(client: Talking, at: TopicPartition) -> Talk[ReplicaOffsets]:
    request = DescribeReplicasRequest([AskedTopic(at.topic, [at.partition])])
    answer = yield from client.asked(at, request, 0, _first_code)
    found: ReplicaOffsets = answer.topics[0].partitions[0]
    return found


def mtro(client: Talking, at: TopicPartition) -> Talk[int]:
    standing = yield from _standing(client, at)
    return standing.mtro


def _parts_at(client: Talking, at: TopicPartition, epoch: int) -> Talk[int | None]:
    """Where the leader's log of that epoch ended."""
    asked = OffsetForLeaderPartition(at.partition, -1, epoch)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(at.topic, [asked])])
    answer = yield from client.asked(at, request, 4, _first_code)
    end: int = answer.topics[0].partitions[0].end_offset
    return end if end >= 0 else None


def read(client: Talking, at: TopicPartition, start: int, end: int | None) -> Talk[Rows]:
    """One Fetch, read_committed; Refused with OFFSET_OUT_OF_RANGE if there is no such place."""
    asked = FetchPartition(at.partition, fetch_offset=start, partition_max_bytes=CHUNK_BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=1,
        topics=[FetchTopic(topic=at.topic, partitions=[asked])],
    )
    asked_ms, target = client.world.now_ms, client.leader(at)
    answer = yield from client.asked(at, request, 12, _read_code)
    if target in client.checks.rotten:  # a checksum does not fit
        raise Refused(KafkaError.CORRUPT_MESSAGE, f"broker {target}, {at}")
    return _rows(answer.responses[0].partitions[0], start, end, asked_ms)


def _rows(data: PartitionData, start: int, end: int | None, asked_ms: int) -> Rows:
    shown: list[tuple[int, bytes, bytes | None]] = []
    reached, headers = start, []
    for batch, hidden in fetched(data):
        reached = max(reached, batch.header.next_offset)
        headers.append(batch.header)
        if not hidden:
            shown += [(r.offset, r.key or b"", r.value) for r in batch.records]
    if not data.records:
        reached = max(reached, data.last_stable_offset)  # the rest was compacted away
    if end is not None:
        reached = min(reached, end)
    shown = [each for each in shown if start <= each[0] < reached]
    epochs = [each.partition_leader_epoch for each in headers if each.base_offset < reached] or [-1]
    return Rows(start, reached, shown, data.high_watermark, max(epochs), epochs[0], asked_ms)


# ── where each answer has its error ──


def _code(answer: Any) -> int:
    code: int = answer.error_code
    return code


def _first_code(answer: Any) -> int:
    if not answer.topics or not answer.topics[0].partitions:
        return KafkaError.NOT_LEADER_OR_FOLLOWER
    code: int = answer.topics[0].partitions[0].error_code
    return code


def _produce_code(answer: Any) -> int:
    return produced(answer).error_code


def _announced_code(answer: Any) -> int:
    """The first that is not well, but rather one that kept others from being tried."""
    codes: list[int] = [
        result.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for result in topic.results_by_partition
        if result.partition_error_code
    ]
    not_tried = KafkaError.OPERATION_NOT_ATTEMPTED
    return min(codes, key=lambda code: code == not_tried, default=KafkaError.NONE)


def _fetched_code(answer: Any) -> int:
    group = answer.groups[0]
    code: int = group.error_code or group.topics[0].partitions[0].error_code
    return code


def _read_code(answer: Any) -> int:
    code: int = answer.responses[0].partitions[0].error_code
    return code
