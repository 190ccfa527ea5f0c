"""Whatever happens to a transaction coordinator, and whenever it moves: one outcome for each.

The world here is a replicated log that may lose its tail with its leader, partitions that take
markers and remember whose transaction they hold open, and clients that ask for anything at any
time, with what they were told or with what is long over. After every step we look at the log and at
the partitions, not into the coordinator:

    what was answered or sent is in the log already
    a transaction's records follow each other as they must; epochs never go back
    a partition's open transaction is only ever ended as the log has decided
    a coordinator that knows only the log would go on in the same way
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines.transaction_entries import TransactionConfig
from sexton.machines.transaction_messages import (
    AddPartitions,
    AddPartitionsAnswer,
    Answer,
    Append,
    Appended,
    AppendFailed,
    Describe,
    EndTransaction,
    EndTransactionAnswer,
    Event,
    ForceAbort,
    ForceAbortAnswer,
    InitProducerId,
    InitProducerIdAnswer,
    Load,
    MarkersWritten,
    NeedProducerId,
    ProducerIdFailed,
    ProducerIdGranted,
    Request,
    SendMarkers,
    Tick,
    Unload,
    VerifyPartitions,
    WakeAt,
)
from sexton.machines.transaction_states import (
    TV1,
    TV2,
    Status,
    Tombstone,
    TransactionRecord,
)
from sexton.machines.transactions import Coordinator

Record = TransactionRecord | Tombstone
Producer = tuple[int, int]

IDS = ("a", "b")
PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))
DAY_MS = 24 * 3600_000

# Which record may follow which. A new transactional id begins with Empty.
FOLLOWS: dict[Status | None, tuple[Status | None, ...]] = {
    None: (Status.EMPTY,),
    Status.EMPTY: (Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT, None),
    Status.ONGOING: (Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT),
    Status.PREPARE_COMMIT: (Status.COMPLETE_COMMIT,),
    Status.PREPARE_ABORT: (Status.COMPLETE_ABORT,),
    Status.COMPLETE_COMMIT: (Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT, None),
    Status.COMPLETE_ABORT: (Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT, None),
}


@dataclass
class Partition:
    """A log that takes markers, with the checks of a partition's leader."""

    epochs: dict[int, int] = field(default_factory=dict)  # by producer id
    coordinators: dict[int, int] = field(default_factory=dict)  # by producer id
    open: dict[int, tuple[str, int]] = field(
        default_factory=dict
    )  # producer id: whose, the how-many-th
    ended: list[tuple[tuple[str, int], bool]] = field(default_factory=list)

    def write(self, producer: Producer, transaction: tuple[str, int]) -> None:
        producer_id, epoch = producer
        if epoch >= self.epochs.get(producer_id, 0):
            self.epochs[producer_id] = epoch
            self.open.setdefault(producer_id, transaction)

    def mark(self, marker: SendMarkers) -> KafkaError | None:
        producer_id = marker.producer_id
        if marker.coordinator_epoch < self.coordinators.get(producer_id, -1):
            return KafkaError.TRANSACTION_COORDINATOR_FENCED
        if marker.producer_epoch < self.epochs.get(producer_id, 0):
            return KafkaError.INVALID_PRODUCER_EPOCH
        self.coordinators[producer_id] = marker.coordinator_epoch
        self.epochs[producer_id] = marker.producer_epoch
        transaction = self.open.pop(producer_id, None)
        if transaction is not None:
            self.ended.append((transaction, marker.commit))
        return None


class Transactions(RuleBasedStateMachine):
    @initialize(cluster=st.sampled_from([TV1, TV2]), worn=st.booleans())
    def begin(self, cluster: int, worn: bool) -> None:
        self.config = TransactionConfig(transaction_version=cluster)
        self.now_ms = 0
        epoch = 32764 if worn else 4  # of 32767
        done = Status.COMPLETE_COMMIT
        self.log: list[Record] = [  # replicated
            TransactionRecord("a", 500, epoch, 1000, done, (), 0, 0, 500, version=TV2),
            TransactionRecord("b", 600, epoch, 1000, done, (), 0, 0, 600),
        ]
        self.tail: list[Append] = []  # written, but not replicated
        self.markers: list[tuple[SendMarkers, TopicPartition]] = []  # on their way
        self.late: list[tuple[SendMarkers, TopicPartition]] = []  # of coordinators before
        self.wanted_ids: list[int] = []
        self.stale: list[int] = []  # tokens of terms that are over
        self.fenced_below: dict[str, Producer] = {}  # by the last producer that started anew
        self.next_producer_id = 1000
        self.partitions = {partition: Partition() for partition in PARTITIONS}
        self.callers: dict[int, Request] = {}  # who waits for an answer
        self.last_caller = 0
        self.told: dict[str, list[Producer]] = {"a": [(500, epoch)], "b": [(600, epoch)]}
        self.coordinator_epoch = 0
        self.coordinator = Coordinator(self.config)
        self.tell(Load(list(self.log), 0))

    # ── clients ──

    def ask(self, request: Any) -> None:
        self.callers[self.last_caller] = request
        self.tell(request)

    def caller(self) -> int:
        self.last_caller += 1
        return self.last_caller

    def producer(self, data: st.DataObject, name: str) -> Producer:
        """Mostly the last that somebody was told, sometimes an older one, or made up."""
        told = self.told[name]
        back = data.draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2, 3, 4]), label="told how long ago")
        return told[-back] if back <= len(told) else (500, 0)

    @rule(data=st.data(), name=st.sampled_from(IDS), named=st.booleans())
    def init(self, data: st.DataObject, name: str, named: bool) -> None:
        producer_id, epoch = self.producer(data, name) if named else (-1, -1)
        self.ask(InitProducerId(self.caller(), name, 1000, producer_id, epoch))

    @rule(data=st.data(), name=st.sampled_from(IDS), version=st.sampled_from([TV1, TV2, TV2]))
    def add(self, data: st.DataObject, name: str, version: int) -> None:
        chosen = data.draw(st.lists(st.sampled_from(PARTITIONS), min_size=1, unique=True))
        producer = self.producer(data, name)
        self.ask(AddPartitions(self.caller(), name, *producer, tuple(chosen), version))

    @rule(
        data=st.data(),
        name=st.sampled_from(IDS),
        commit=st.booleans(),
        version=st.sampled_from([TV1, TV2, TV2]),
    )
    def end(self, data: st.DataObject, name: str, commit: bool, version: int) -> None:
        producer = self.producer(data, name)
        self.ask(EndTransaction(self.caller(), name, *producer, commit, version))

    @rule(name=st.sampled_from(IDS))
    def register(self, name: str) -> None:
        """A producer starts, and has patience."""
        before = len(self.told[name])
        for _ in range(3):
            if len(self.told[name]) == before:
                self.ask(InitProducerId(self.caller(), name, 1000))
                self.all_goes_well()

    @rule(
        data=st.data(),
        name=st.sampled_from(IDS),
        commit=st.booleans(),
        version=st.sampled_from([TV1, TV2]),
    )
    def a_whole_transaction(
        self, data: st.DataObject, name: str, commit: bool, version: int
    ) -> None:
        """As far as it gets; and its end once more."""
        self.all_goes_well()
        self.add(data, name, version)
        self.all_goes_well()
        producer = self.producer(data, name)
        for again in (commit, data.draw(st.booleans(), label="and then commit")):
            self.ask(EndTransaction(self.caller(), name, *producer, again, version))
            if not data.draw(st.booleans(), label="all goes well"):
                while self.tail:  # as far as the decision
                    self.replicate_one()
                return
            self.all_goes_well()

    @precondition(lambda self: any(self.is_ongoing(name) for name in IDS))
    @rule(data=st.data())
    def force_abort(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name in IDS if self.is_ongoing(name)]))
        self.ask(ForceAbort(self.caller(), name))

    # ── the world ──

    @precondition(lambda self: self.tail)
    @rule(count=st.integers(1, 3))
    def replicate(self, count: int) -> None:
        for _ in range(min(count, len(self.tail))):
            self.replicate_one()

    def replicate_one(self) -> None:
        append = self.tail.pop(0)
        self.log.append(append.record)
        self.tell(Appended(append.token))

    @precondition(lambda self: self.tail or self.markers or self.wanted_ids)
    @rule()
    def all_goes_well(self) -> None:
        """For a while, so that a history gets somewhere."""
        while self.tail or self.markers or self.wanted_ids:
            if self.tail:
                self.replicate_one()
            elif self.wanted_ids:
                self.grant_one(True)
            else:
                self.deliver(*self.markers.pop(0), "written")

    @precondition(lambda self: self.tail)
    @rule()
    def refuse_record(self) -> None:
        append = self.tail.pop()  # it never got into the log
        self.tell(AppendFailed(append.token, KafkaError.NOT_ENOUGH_REPLICAS))

    @precondition(lambda self: self.wanted_ids)
    @rule(granted=st.sampled_from([True, True, False]))
    def producer_id(self, granted: bool) -> None:
        self.grant_one(granted)

    def grant_one(self, granted: bool) -> None:
        token = self.wanted_ids.pop(0)
        if not granted:
            self.tell(ProducerIdFailed(token, KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
            return
        self.next_producer_id += 1
        self.tell(ProducerIdGranted(token, self.next_producer_id))

    @precondition(lambda self: self.markers)
    @rule(
        data=st.data(), how=st.sampled_from(["written", "written", "lost", "unanswered", "twice"])
    )
    def deliver_marker(self, data: st.DataObject, how: str) -> None:
        at = data.draw(st.integers(0, len(self.markers) - 1), label="which")
        self.deliver(*self.markers.pop(at), how)

    def deliver(self, marker: SendMarkers, partition: TopicPartition, how: str) -> None:
        error = self.partitions[partition].mark(marker) if how != "lost" else None
        if how in ("lost", "unanswered"):
            error = KafkaError.NETWORK_EXCEPTION
        self.tell(MarkersWritten(marker.token, partition, error))
        if how == "twice":
            self.tell(MarkersWritten(marker.token, partition, error))

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def deliver_late_marker(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.late) - 1), label="which")
        marker, partition = self.late.pop(at)
        error = self.partitions[partition].mark(marker)
        self.tell(MarkersWritten(marker.token, partition, error))  # tokens of an earlier term

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def stale_news(self, data: st.DataObject) -> None:
        """How it went with an effect of an earlier term: nobody waits for that."""
        token = self.stale.pop()
        refused = KafkaError.NOT_LEADER_OR_FOLLOWER
        news: list[Event] = [
            Appended(token),
            AppendFailed(token, refused),
            ProducerIdGranted(token, 9999),
        ]
        assert self.coordinator.handle(data.draw(st.sampled_from(news)), self.now_ms) == []

    @rule(ms=st.sampled_from([0, 100, 100, 900, 1001, 1001, DAY_MS, 8 * DAY_MS]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self.tell(Tick())

    @rule(kept=st.integers(0, 3), same_broker=st.booleans())
    def move(self, kept: int, same_broker: bool) -> None:
        """A new leader has all that is replicated, and maybe some of what is not."""
        self.log += [append.record for append in self.tail[:kept]]
        self.stale = [*self.wanted_ids, *(append.token for append in self.tail)]
        self.tail = []
        self.late += self.markers
        self.markers, self.wanted_ids = [], []
        self.tell(Unload())
        assert not self.callers
        if not same_broker:
            last_token = self.coordinator._last_token
            self.coordinator = Coordinator(self.config)
            self.coordinator._last_token = last_token + 1000  # a token is known to its broker only
        self.coordinator_epoch += 1
        self.tell(Load(list(self.log), self.coordinator_epoch))

    def tell(self, event: Event) -> None:
        for effect in self.coordinator.handle(event, self.now_ms):
            match effect:
                case Append():
                    self.tail.append(effect)
                case SendMarkers(partitions=partitions):
                    self.check_decided(effect)
                    self.markers += [(effect, partition) for partition in partitions]
                case NeedProducerId(token):
                    self.wanted_ids.append(token)
                case Answer():
                    self.hear(effect)
                case WakeAt(ms):
                    assert ms >= 0

    # ── what must be true ──

    def last(self, name: str) -> TransactionRecord | None:
        found = None
        for record in self.log:
            if record.transactional_id == name:
                found = None if isinstance(record, Tombstone) else record
        return found

    def number(self, name: str) -> int:
        """How many transactions have begun so far: the current one's number."""
        count, before = 0, None
        for record in self.log:
            if record.transactional_id == name:
                status = None if isinstance(record, Tombstone) else record.status
                count += status is Status.ONGOING and before is not Status.ONGOING
                before = status
        return count

    def outcomes(self) -> dict[tuple[str, int], bool]:
        """How the log has decided each transaction."""
        decided: dict[tuple[str, int], bool] = {}
        for name in IDS:
            count, before = 0, None
            for record in self.log:
                if record.transactional_id != name:
                    continue
                status = None if isinstance(record, Tombstone) else record.status
                count += status is Status.ONGOING and before is not Status.ONGOING
                if before is Status.ONGOING and status is not Status.ONGOING:
                    decided[name, count] = status is Status.PREPARE_COMMIT
                before = status
        return decided

    def hear(self, effect: Answer) -> None:
        assert isinstance(effect.caller, int)
        request = self.callers.pop(effect.caller)  # answered once
        if getattr(effect.answer, "error", None) is KafkaError.NONE:
            self.check_not_fenced(request)
        match request, effect.answer:
            case InitProducerId(), InitProducerIdAnswer(KafkaError.NONE, producer_id, epoch):
                record = self.last(request.transactional_id)
                assert record is not None and record.status is Status.EMPTY
                assert (record.producer_id, record.producer_epoch) == (producer_id, epoch)
                self.tell_producer(request.transactional_id, (producer_id, epoch))
                if request.producer_id < 0:
                    self.fenced_below[request.transactional_id] = (producer_id, epoch)
            case AddPartitions(), AddPartitionsAnswer(KafkaError.NONE):
                record = self.last(request.transactional_id)
                assert record is not None and record.status is Status.ONGOING
                assert (record.producer_id, record.producer_epoch) == (
                    request.producer_id,
                    request.epoch,
                )
                assert set(request.partitions) <= set(record.partitions)
                transaction = (request.transactional_id, self.number(request.transactional_id))
                for partition in request.partitions:
                    self.partitions[partition].write(
                        (request.producer_id, request.epoch), transaction
                    )
            case EndTransaction(), EndTransactionAnswer(KafkaError.NONE, producer_id, epoch):
                self.check_ended(request)
                if request.version >= TV2:
                    assert (producer_id, epoch) > (request.producer_id, request.epoch)
                    self.tell_producer(request.transactional_id, (producer_id, epoch))
            case ForceAbort(), ForceAbortAnswer(KafkaError.NONE):
                *_, ongoing, aborted = self.records(request.transactional_id)
                assert ongoing.status is Status.ONGOING
                assert aborted.status is Status.PREPARE_ABORT
                assert aborted.producer_epoch > ongoing.producer_epoch

    def tell_producer(self, name: str, producer: Producer) -> None:
        assert 0 <= producer[1] < 32767  # the last epoch is for markers
        self.told[name].append(producer)

    def check_not_fenced(self, request: Request) -> None:
        """Nobody from before the last producer that started anew gets anything."""
        match request:
            case InitProducerId(_, name, _, producer_id, epoch) if producer_id >= 0:
                assert (producer_id, epoch) >= self.fenced_below.get(name, (0, 0))
            case AddPartitions() | EndTransaction():
                producer = (request.producer_id, request.epoch)
                assert producer >= self.fenced_below.get(request.transactional_id, (0, 0))

    def records(self, name: str) -> list[TransactionRecord]:
        found = [record for record in self.log if isinstance(record, TransactionRecord)]
        return [record for record in found if record.transactional_id == name]

    def check_ended(self, request: EndTransaction) -> None:
        record = self.last(request.transactional_id)
        assert record is not None
        if request.commit:
            assert record.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)
        else:
            assert record.status in (Status.PREPARE_ABORT, Status.COMPLETE_ABORT)

    def check_decided(self, effect: SendMarkers) -> None:
        """Markers say what the log says last, and nothing else."""
        record = self.last(effect.transactional_id)
        assert record is not None
        wanted = Status.PREPARE_COMMIT if effect.commit else Status.PREPARE_ABORT
        assert record.status is wanted
        assert (record.producer_id, record.producer_epoch) == (
            effect.producer_id,
            effect.producer_epoch,
        )
        assert set(effect.partitions) <= set(record.partitions)
        assert effect.coordinator_epoch == self.coordinator_epoch

    @invariant()
    def the_log_makes_sense(self) -> None:
        for name in IDS:
            before: TransactionRecord | None = None
            for record in self.log:
                if record.transactional_id != name:
                    continue
                now = None if isinstance(record, Tombstone) else record
                if before is None and now is not None and now.producer_id in (500, 600):
                    before = now  # the ones we began with
                    continue
                assert (now.status if now else None) in FOLLOWS[before.status if before else None]
                if before is not None and now is not None:
                    if now.producer_id == before.producer_id:
                        assert before.producer_epoch <= now.producer_epoch
                    else:
                        assert now.producer_epoch == 0 and now.producer_id > before.producer_id
                before = now

    @invariant()
    def a_transaction_ends_as_decided(self) -> None:
        decided = self.outcomes()
        for partition in self.partitions.values():
            for transaction, commit in partition.ended:
                assert decided[transaction] == commit

    @invariant()
    def a_complete_transaction_is_open_nowhere(self) -> None:
        for name in IDS:
            record = self.last(name)
            if record is None or record.status not in (
                Status.COMPLETE_COMMIT,
                Status.COMPLETE_ABORT,
            ):
                continue
            for partition in self.partitions.values():
                assert all(whose != name for whose, _ in partition.open.values())

    @invariant()
    def it_says_so_itself(self) -> None:
        self.coordinator.check()

    @precondition(lambda self: not self.tail and not self.wanted_ids)
    @rule(data=st.data(), name=st.sampled_from(IDS), which=st.integers(0, 8))
    def the_log_is_all_one_has_to_know(self, data: st.DataObject, name: str, which: int) -> None:
        """Ask this coordinator, and one that has just read the log."""
        question = _questions(name, self.producer(data, name))[which]
        if isinstance(question, Describe) and self.last_is_prepare(name):
            return  # which markers are still missing is the one thing that is in no record
        other = Coordinator(self.config)
        other.handle(Load(list(self.log), self.coordinator_epoch), self.now_ms)
        here = _say(copy.deepcopy(self.coordinator), question, self.now_ms)
        assert here == _say(other, question, self.now_ms), question

    def is_ongoing(self, name: str) -> bool:
        record = self.last(name)
        return record is not None and record.status is Status.ONGOING

    def last_is_prepare(self, name: str) -> bool:
        record = self.last(name)
        return record is not None and record.status in (
            Status.PREPARE_COMMIT,
            Status.PREPARE_ABORT,
        )

    def teardown(self) -> None:
        """When all is well again, everybody is answered and everything comes to its end."""
        if not hasattr(self, "coordinator"):
            return
        if any(
            entry.sending and entry.sending.stopped for entry in self.coordinator.entries.values()
        ):
            self.move(0, False)  # a later coordinator has been there
        self.all_goes_well()
        while any(self.last_is_prepare(name) for name in IDS):
            self.time_passes(100)
            assert self.tail or self.markers, "nobody does anything about it"
            self.all_goes_well()
        assert not self.callers
        self.a_transaction_ends_as_decided()
        assert not any(self.last_is_prepare(name) for name in IDS)


def _questions(name: str, producer: Producer) -> list[Event]:
    asked: list[Event] = [Describe("", name), InitProducerId("", name, 1000)]
    asked.append(VerifyPartitions("", name, *producer, PARTITIONS))
    for version in (TV1, TV2):
        asked.append(AddPartitions("", name, *producer, PARTITIONS[:1], version))
        asked.append(EndTransaction("", name, *producer, True, version))
        asked.append(EndTransaction("", name, *producer, False, version))
    return asked


def _say(coordinator: Coordinator, question: Event, now_ms: int) -> list[object]:
    """What it does, without tokens and alarms."""
    said: list[object] = []
    for effect in coordinator.handle(question, now_ms):
        match effect:
            case Append(_, record):
                said.append(record)
            case Answer(_, answer):
                said.append(answer)
            case NeedProducerId():
                said.append("a producer id")
            case _:
                pass
    return said


TestTransactions = Transactions.TestCase
