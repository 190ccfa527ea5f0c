"""The transactions of one task: one after the other, all or nothing each.

    initialise ─▶ send(batches) ─▶ send_offset ─▶ end ─▶ send ...
        ▲                                          │
        └────────── anything that went wrong ◀─────┘

A transaction is short: all its records are there before it begins. Batches go to their leaders one
after the other and are sent again as they are, under the same sequence, while the answer is that
somebody is not ready; everything else ends the transaction, and the producer starts over with a new
epoch. Nothing here waits without an end, which is why this is not librdkafka: its producer can wait
for ever when a coordinator goes away for good (confluentinc/librdkafka 5456, 5511).

The generation of the group goes with every offset: a worker that the group has left behind is
refused, whatever its epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.client.producing import stamp
from sexton.client.retrying import Patience
from sexton.client.transacting import (
    ANNOUNCED,
    GROUP,
    IMPLIED,
    TRANSACTION,
    Transaction,
    add_partitions,
    init_producer_id,
    until_ready,
)
from sexton.client.transacting import FENCED as FENCED_CODES
from sexton.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sexton.protocol.messages.end_txn import EndTxnRequest
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
from sexton.records.layout import sequence_after
from sexton.stores.coordinators import Coordinator

_ALL: Final = -1
_PRODUCE = {ANNOUNCED: range(3, 12), IMPLIED: range(12, 13)}  # from 13 on topics go by id
_OFFSETS = {ANNOUNCED: range(3, 5), IMPLIED: range(5, 6)}
_END = {ANNOUNCED: range(5), IMPLIED: range(5, 6)}
# Of these the group speaks, not the transaction coordinator.
LEFT_BEHIND: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
HOPELESS: Final = frozenset(
    {
        KafkaError.MESSAGE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,  # for longer than a topic may be news
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
# Of these, one may pass: whoever may wait for longer does.
FOR_GOOD: Final = HOPELESS - {KafkaError.UNKNOWN_TOPIC_OR_PARTITION}
PATIENCE = Patience(timeout_ms=20_000, backoff_ms=10, most_backoff_ms=250)


@dataclass(frozen=True, slots=True)
class Membership:
    """Who we are in the group, at this moment."""

    group: str
    member_id: str
    generation: int


class RefusedForGood(SextonError):
    """Kafka refuses what is asked, and would refuse it again: rights are missing, mostly."""


class NotWritten(SextonError):
    """A transaction that went wrong before its end was asked for: it can only be aborted."""


class TaskProducer:
    def __init__(self, client: Client, transactional_id: str, group: str, timeout_ms: int) -> None:
        self._client = client
        self._id = transactional_id
        self._group_id = group
        self._timeout_ms = timeout_ms
        self._transaction: Transaction | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._joined: set[TopicPartition] = set()  # partitions of the open transaction
        self._leaders: dict[TopicPartition, int] = {}
        self._coordinator = Coordinator(client, TRANSACTION, transactional_id)
        self._group = Coordinator(client, GROUP, group)

    async def initialise(self) -> None:
        """A new epoch: whoever had the last one is fenced, and what it had open has ended."""
        self._transaction = None
        found = await init_producer_id(self._client, self._id, self._timeout_ms, PATIENCE)
        self._transaction = found
        self._sequences, self._joined = {}, set()

    # ── writing ──

    async def send(
        self, batches: Mapping[TopicPartition, list[bytearray]]
    ) -> dict[TopicPartition, range]:
        """For each partition, from the first record to after the last; when all are taken."""
        landed: dict[TopicPartition, range] = {}
        transaction = self._began()
        if transaction.version == ANNOUNCED:
            new = [at for at in batches if at not in self._joined]
            if new:
                await add_partitions(self._client, transaction, new, PATIENCE)
        self._joined.update(batches)
        for turn in range(max(map(len, batches.values()), default=0)):
            now = {at: queue[turn] for at, queue in batches.items() if turn < len(queue)}
            counts = {}
            for at, batch in now.items():
                sequence = self._sequences.get(at, 0)
                counts[at] = stamp(batch, transaction.producer_id, transaction.epoch, sequence)
                self._sequences[at] = sequence_after(sequence, counts[at])
            for at, base in (await self._until_taken(now)).items():
                if base < 0:
                    raise NotWritten(str(at), "its leader does not say where the records are")
                so_far = landed.setdefault(at, range(base, base))
                if base < so_far.stop:
                    raise NotWritten(str(at), f"was cut below {so_far.stop} while it was written")
                landed[at] = range(so_far.start, base + counts[at])
        return landed

    async def _until_taken(
        self, batches: dict[TopicPartition, bytearray]
    ) -> dict[TopicPartition, int]:
        taken: dict[TopicPartition, int] = {}

        async def ask() -> None:
            left = {at: batch for at, batch in batches.items() if at not in taken}
            by_leader: dict[int, dict[TopicPartition, bytearray]] = {}
            for at, batch in left.items():
                by_leader.setdefault(await self._leader(at), {})[at] = batch
            troubles: list[PeerError | Refused] = []
            asked = [self._produce(node, some, taken) for node, some in by_leader.items()]
            for result in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(result, PeerError | Refused):
                    troubles.append(result)
                elif isinstance(result, BaseException):
                    raise result
            # What will not pass is what the caller has to hear of.
            for trouble in sorted(troubles, key=lambda t: not isinstance(t, Refused)):
                self._leaders.clear()
                self._client.look_elsewhere()
                raise trouble

        await until_ready(ask, PATIENCE)
        return taken

    async def _produce(
        self, node: int, batches: dict[TopicPartition, bytearray], taken: dict[TopicPartition, int]
    ) -> None:
        transaction = self._began()
        topics: dict[str, TopicProduceData] = {}
        for at, batch in batches.items():
            topic = topics.setdefault(at.topic, TopicProduceData(at.topic, partition_data=[]))
            topic.partition_data.append(PartitionProduceData(at.partition, batch))
        most_ms = min(PATIENCE.timeout_ms, self._client.broker_timeout_ms)
        request = ProduceRequest(self._id, _ALL, most_ms, list(topics.values()))
        connection = await self._client.broker(node)
        answer = await connection.ask(request, _PRODUCE[transaction.version])
        trouble: PeerError | Refused | None = None
        for response in answer.responses:
            for result in response.partition_responses:
                at = TopicPartition(response.name, result.index)
                if result.error_code in (
                    KafkaError.NONE, KafkaError.DUPLICATE_SEQUENCE_NUMBER
                ):  # fmt: skip
                    taken[at] = result.base_offset
                else:
                    code, said = result.error_code, result.error_message
                    trouble = refused(code, f"records for {at}", said)
        if trouble is not None:
            raise trouble
        if any(at not in taken for at in batches):
            raise PeerError(connection.peer, "a Produce is answered without its partitions")

    async def _leader(self, at: TopicPartition) -> int:
        if at not in self._leaders:
            leader = (await self._client.place(at)).leader
            if leader < 0:
                self._client.look_elsewhere()
                raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody leads {at}")
            self._leaders[at] = leader
        return self._leaders[at]

    # ── offsets and the end ──

    async def send_offset(self, member: Membership, at: TopicPartition, offset: int) -> None:
        transaction = self._began()
        if transaction.version == ANNOUNCED:
            await self._coordinator.until_ready(self._add_offsets, PATIENCE)
        entry = TxnOffsetCommitRequestPartition(at.partition, offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            self._id, member.group, transaction.producer_id, transaction.epoch,
            member.generation, member.member_id,
            topics=[TxnOffsetCommitRequestTopic(at.topic, [entry])],
        )  # fmt: skip

        async def ask(connection: Connection) -> None:
            answer = await connection.ask(request, _OFFSETS[transaction.version])
            told = {
                TopicPartition(topic.name, result.partition_index): result.error_code
                for topic in answer.topics
                for result in topic.partitions
            }
            if at not in told:  # committed without it, what was processed would be so again
                why = f"the offset {offset} of {at} is answered without it"
                raise PeerError(connection.peer, why)
            if told[at]:
                raise refused(told[at], f"the offset {offset} of {at}")

        try:
            await self._group.until_ready(ask, PATIENCE)
        except Refused as error:
            if is_left_behind(error):
                self._group.forget()  # it may have been replaced, and not have heard of it
            raise

    async def _add_offsets(self, connection: Connection) -> None:
        transaction = self._began()
        request = AddOffsetsToTxnRequest(
            self._id, transaction.producer_id, transaction.epoch, self._group_id
        )
        answer = await connection.ask(request)
        if answer.error_code:
            raise refused(answer.error_code, f"the group {self._group_id} in a transaction")

    async def end(self, *, committed: bool) -> None:
        """Returns when it is decided. An error leaves open how it ended."""
        transaction = self._began()
        request = EndTxnRequest(self._id, transaction.producer_id, transaction.epoch, committed)

        async def ask(connection: Connection) -> None:
            answer = await connection.ask(request, _END[transaction.version])
            if answer.error_code:
                raise refused(answer.error_code, f"the end of {self._id}")
            self._joined = set()
            if transaction.version == IMPLIED and answer.producer_id >= 0:
                # Every transaction has its own epoch (KIP-890), and sequences begin again.
                self._transaction = replace(
                    transaction, producer_id=answer.producer_id, epoch=answer.producer_epoch
                )
                self._sequences = {}

        await self._coordinator.until_ready(ask, PATIENCE)

    async def abort(self) -> None:
        """As far as it can be said; a new epoch ends it in any case."""
        if self._transaction is None or not self._joined:
            return
        try:
            await self.end(committed=False)
        except SextonError:
            pass

    def _began(self) -> Transaction:
        if self._transaction is None:
            raise NotWritten(self._id, "has no producer id yet")
        return self._transaction


def is_fenced(error: SextonError) -> bool:
    return isinstance(error, Refused) and error.error in FENCED_CODES


def is_hopeless(error: SextonError) -> bool:
    return isinstance(error, Refused) and error.error in HOPELESS


def for_good(error: Refused) -> RefusedForGood:
    """As it is told to people; which right is missing is found out at the end (`rights`)."""
    return RefusedForGood(error.subject, error.why, error.hint)


def is_left_behind(error: SextonError) -> bool:
    return isinstance(error, Refused) and error.error in LEFT_BEHIND
