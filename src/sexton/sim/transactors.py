"""Those who write in transactions, and may commit offsets of a group with them.

One commits, aborts, or walks away in the middle; and sometimes an earlier self of it wakes up and
goes on where it was (a zombie), which the cluster must not believe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines.offset_table import Key
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE
from sexton.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from sexton.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sexton.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from sexton.sim.checks import Checks
from sexton.sim.clients import (
    INPUT,
    PAUSE_MS,
    TRY_AGAIN,
    Sequence,
    Traffic,
    batch_of,
    produce_request,
    produced,
)
from sexton.sim.truth import Outcome
from sexton.sim.world import World
from sexton.sim.writers import Habits, Writer

TV1, TV2 = 1, 2


class Written(NamedTuple):
    partition: TopicPartition
    offset: int
    records: int
    losses: int  # how often the partition had lost records by then


class Consumed(NamedTuple):
    offset: int
    losses: int  # how often the group's log had lost records by then


@dataclass(slots=True)
class _Transaction:
    """One transaction of one writer."""

    producer_id: int
    epoch: int
    left: int  # batches still to be written
    sequences: dict[TopicPartition, Sequence] = field(default_factory=dict)
    added: dict[TopicPartition, None] = field(default_factory=dict)  # told to the coordinator
    written: list[Written] = field(default_factory=list)
    offsets: bool = False
    consumed: Consumed | None = None  # what it has committed for its group


@dataclass(slots=True)
class Ended:
    """What a writer was told of a transaction: it must be so in the truth."""

    committed: bool
    written: list[Written]
    consumed: Consumed | None


class TransactionalWriter(Writer):
    def __init__(
        self,
        world: World,
        checks: Checks,
        traffic: Traffic,
        number: int,
        seed: str,
        habits: Habits,
        version: int,
        timeout_ms: int,
        group: str | None,
    ) -> None:
        super().__init__(world, checks, traffic, number, seed, habits)
        self.transactional_id = f"t{number}"
        self.version = version
        self.timeout_ms = timeout_ms
        self.group = group
        self.ended: list[Ended] = []
        self._zombie: _Transaction | None = None
        self._consumed = 0

    @property
    def _state(self) -> TopicPartition:
        return self.coordinator(TRANSACTION_STATE, self.transactional_id)

    @property
    def excused(self) -> bool:
        # A coordinator that has lost its log may give out an epoch a second time.
        return self.checks.group(self._state).truth.losses > 0

    def start(self) -> None:
        self.soon(self._init)

    # ── beginning ──

    def _init(self) -> None:
        def then(response: object) -> KafkaError:
            assert isinstance(response, InitProducerIdResponse)
            error = KafkaError(response.error_code)
            if error == KafkaError.NONE:
                self._begin(response.producer_id, response.producer_epoch)
            elif error not in TRY_AGAIN:
                self.soon(self._init)
            return error

        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        self.ask_leader(self._state, request, then, 5)

    def _begin(
        self, producer_id: int, epoch: int, sequences: dict[TopicPartition, Sequence] | None = None
    ) -> None:
        batches = self.random.choice((1, 1, 2, 3))
        transaction = _Transaction(producer_id, epoch, batches, sequences or {})
        self.soon(lambda: self._go_on(transaction))

    def _go_on(self, transaction: _Transaction) -> None:
        if transaction.left > 0:
            transaction.left -= 1
            self._add(transaction)
            return
        chance = self.random.random()
        if chance < 0.08:
            self._abandon(transaction)
        elif self.group is not None and chance < 0.4 and not transaction.offsets:
            self._send_offsets(transaction)
        else:
            self._end(transaction, commit=chance < 0.75)

    def _abandon(self, transaction: _Transaction) -> None:
        """The process dies, or hangs; another one takes its place some time later."""
        self.traffic.abandoned += 1
        self._zombie = transaction
        self.after(self.random.randint(1, 3 * self.timeout_ms), self._init)
        if self.random.random() < 0.7:
            self.after(self.random.randint(1, 6 * self.timeout_ms), self._zombie_wakes)

    def _zombie_wakes(self) -> None:
        zombie, self._zombie = self._zombie, None
        if zombie is not None:
            zombie.left = 1
            self._add(zombie, zombie=True)

    # ── writing ──

    def _add(self, transaction: _Transaction, *, zombie: bool = False) -> None:
        partition = self.random.choice(self.habits.partitions)
        if self.version == TV2 or partition in transaction.added:
            self._write(transaction, partition, zombie)
            return

        def then(response: object) -> KafkaError:
            assert isinstance(response, AddPartitionsToTxnResponse)
            results = response.results_by_topic_v3_and_below[0].results_by_partition
            error = KafkaError(results[0].partition_error_code)
            if error == KafkaError.NONE:
                transaction.added[partition] = None
                self._write(transaction, partition, zombie)
            elif error not in TRY_AGAIN:
                self._failed(zombie)
            return error

        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=transaction.producer_id,
            v3_and_below_producer_epoch=transaction.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(partition.topic, [partition.partition])],
        )
        self.ask_leader(self._state, request, then, 3)

    def _write(self, transaction: _Transaction, partition: TopicPartition, zombie: bool) -> None:
        sequence = transaction.sequences.setdefault(
            partition, Sequence(transaction.producer_id, transaction.epoch)
        )
        records = [self.record() for _ in range(self.random.choice((1, 1, 2)))]
        batch = batch_of(records, sequence, self.world.now_ms, transactional=True)
        losses = self.checks.group(partition).truth.losses

        def then(response: object) -> KafkaError:
            result = produced(response)
            error = KafkaError(result.error_code)
            if error == KafkaError.NONE:
                sequence.next += len(records)
                self.promised(partition, result.base_offset, records, losses)
                written = Written(partition, result.base_offset, len(records), losses)
                transaction.written.append(written)
                if not zombie:
                    self.soon(lambda: self._go_on(transaction))
            elif error not in TRY_AGAIN:
                self._failed(zombie)
            return error

        request = produce_request(partition, batch, self.transactional_id)
        self.ask_leader(partition, request, then, 12 if self.version == TV2 else 11)

    def _failed(self, zombie: bool) -> None:
        """Fenced, timed out, or its state is gone: a real client would start over."""
        self.traffic.fenced += 1
        if not zombie:
            self.after(PAUSE_MS, self._init)

    def _send_offsets(self, transaction: _Transaction) -> None:
        transaction.offsets = True
        group = self.group
        assert group is not None
        of_group = self.coordinator(CONSUMER_OFFSETS, group)
        self._consumed += 1
        consumed = Consumed(self._consumed, self.checks.group(of_group).truth.losses)

        def commit() -> None:
            entry = TxnOffsetCommitRequestPartition(0, consumed.offset, -1, "")
            request = TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.epoch,
                topics=[TxnOffsetCommitRequestTopic(INPUT, [entry])],
            )
            self.ask_leader(of_group, request, committed, 3)

        def committed(response: object) -> KafkaError:
            assert isinstance(response, TxnOffsetCommitResponse)
            error = KafkaError(response.topics[0].partitions[0].error_code)
            if error == KafkaError.NONE:
                transaction.consumed = consumed
                self._go_on(transaction)
            elif error not in TRY_AGAIN:
                self._failed(False)
            return error

        def added(response: object) -> KafkaError:
            assert isinstance(response, AddOffsetsToTxnResponse)
            error = KafkaError(response.error_code)
            if error == KafkaError.NONE:
                commit()
            elif error not in TRY_AGAIN:
                self._failed(False)
            return error

        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            group_id=group,
        )
        self.ask_leader(self._state, request, added, 3)

    # ── ending ──

    def _end(self, transaction: _Transaction, commit: bool) -> None:
        def then(response: object) -> KafkaError:
            assert isinstance(response, EndTxnResponse)
            error = KafkaError(response.error_code)
            if error == KafkaError.NONE:
                self._told(transaction, commit)
                if self.version == TV2:
                    self._begin(response.producer_id, response.producer_epoch)
                else:  # the epoch stays, and sequences go on
                    self._begin(transaction.producer_id, transaction.epoch, transaction.sequences)
            elif error not in TRY_AGAIN:
                self._failed(False)
            return error

        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            committed=commit,
        )
        self.ask_leader(self._state, request, then, 5 if self.version == TV2 else 3)

    def _told(self, transaction: _Transaction, commit: bool) -> None:
        if commit:
            self.traffic.committed += 1
        else:
            self.traffic.aborted += 1
        self.ended.append(Ended(commit, transaction.written, transaction.consumed))

    def check_promises(self) -> None:
        """At the end: every transaction whose end was acknowledged has ended so."""
        for ended in [] if self.excused else self.ended:
            for partition, offset, records, losses in ended.written:
                truth = self.checks.group(partition).truth
                if truth.losses != losses:
                    continue
                wanted = Outcome.COMMITTED if ended.committed else Outcome.ABORTED
                for place in range(offset, offset + records):
                    entry = truth.entries.get(place)
                    if entry is None or entry.outcome is not wanted:
                        what = f"offset {place} was acknowledged as {wanted.value} and is {entry}"
                        self.checks.fail("transaction-broken", str(partition), what)
        if self.group is not None and not self.excused:
            self._check_consumed(self.group)

    def _check_consumed(self, group: str) -> None:
        """The group's offset is the last that one of its transactions has committed, or later."""
        partition = self.coordinator(CONSUMER_OFFSETS, group)
        losses, found = self.checks.group(partition).truth.losses, self._offset_of(group, partition)
        for ended in self.ended:
            promised = ended.consumed if ended.committed else None
            if promised is not None and promised.losses == losses and found < promised.offset:
                what = f"group {group} had committed {promised.offset} and is at {found}"
                self.checks.fail("offset-went-back", str(partition), what)

    def _offset_of(self, group: str, partition: TopicPartition) -> int:
        """As its coordinator would answer."""
        leader = self.checks.image.partitions[partition].leader
        broker = self.world.processes[leader].broker if leader > 0 else None
        offsets = broker.offsets.machines.get(partition) if broker else None
        kept = offsets.table.get(Key(group, TopicPartition(INPUT, 0))) if offsets else None
        return -1 if kept is None else kept.offset
