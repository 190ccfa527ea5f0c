"""Who decides whether a transaction commits, and how does everyone come to know?

The transaction coordinator of one partition of `__transaction_state`, as in Apache Kafka 4.3:

    producer ── InitProducerId ─▶ │             │ ── Append Empty ───────────▶ log
             ── AddPartitions ──▶ │             │ ── Append Ongoing ─────────▶
             ── EndTransaction ─▶ │ coordinator │ ── Append PrepareCommit ───▶   the commit point
                                  │             │ ══ SendMarkers ════════════▶ every partition
                                  │             │ ── Append CompleteCommit ──▶ log

Three facts carry it. A transactional id takes one step at a time: while a record is not replicated,
or markers are under way, whoever asks hears CONCURRENT_TRANSACTIONS. Nothing is answered or sent
before the record that promises it is below the high watermark; so what the world was told is in the
log, and a new coordinator that folds the log goes on where this one stood. And from Prepare there
is one way only, to the end that was decided: markers are sent until every partition has its own,
under the epoch of whoever coordinates at the time.

A zombie is fenced by its epoch (`transaction_states` says when that rises). What a client leaves
open for longer than its timeout, the coordinator aborts itself; what has been idle for a week it
forgets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import assert_never

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines import coordinator_errors
from sexton.machines import transaction_rules as rules
from sexton.machines import transaction_states as step
from sexton.machines import transaction_views as views
from sexton.machines.alarms import Alarms
from sexton.machines.transaction_entries import (
    Entry,
    Granting,
    Sending,
    TransactionConfig,
    Writing,
)
from sexton.machines.transaction_messages import (
    AddPartitions,
    AddPartitionsAnswer,
    Answer,
    AnyAnswer,
    Append,
    Appended,
    AppendFailed,
    Describe,
    Effect,
    EndTransaction,
    EndTransactionAnswer,
    Event,
    ForceAbort,
    ForceAbortAnswer,
    InitProducerId,
    InitProducerIdAnswer,
    List,
    Load,
    LoadStarted,
    MarkersWritten,
    NeedProducerId,
    ProducerIdFailed,
    ProducerIdGranted,
    Request,
    SendMarkers,
    Tick,
    Token,
    Unload,
    VerifyPartitions,
    WakeAt,
)
from sexton.machines.transaction_states import (
    NO_PRODUCER_ID,
    TV2,
    Dead,
    Ongoing,
    Prepare,
    PrepareCommit,
    Status,
    Tombstone,
    Transaction,
    TransactionRecord,
)

TICK_LIMIT = 1000  # transactional ids that one tick looks at; a week's worth may expire at once


@dataclass(slots=True)
class Coordinator:
    config: TransactionConfig = field(default_factory=TransactionConfig)
    coordinator_epoch: int | None = None  # None: somebody else leads, or the log is being read
    loading: bool = False
    entries: dict[str, Entry] = field(default_factory=dict)
    _tokens: dict[Token, str] = field(default_factory=dict)  # who waits for it
    _last_token: Token = 0
    _alarms: Alarms[str] = field(default_factory=Alarms)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, Tick):
            self._alarms.woken()
        effects = self._handle(event, now_ms)
        if (wake_ms := self._alarms.new_wake_ms()) is not None:
            effects.append(WakeAt(wake_ms))
        return effects

    def _handle(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case Appended(token):
                return self._appended(token, now_ms)
            case MarkersWritten(token, partition, error):
                return self._marker_written(token, partition, error, now_ms)
            case ProducerIdGranted(token, producer_id):
                return self._granted(token, producer_id, now_ms)
            case AppendFailed(token, error) | ProducerIdFailed(token, error):
                return self._failed(token, error, now_ms)
            case LoadStarted():
                unloaded = self._unload()
                self.loading = True
                return unloaded
            case Load(records, coordinator_epoch):
                return self._load(records, coordinator_epoch, now_ms)
            case Unload():
                return self._unload()
            case Tick():
                return self._tick(now_ms)
            case _:
                return self._request(event, now_ms)

    # ── requests ──

    def _request(self, event: Request, now_ms: int) -> list[Effect]:
        error = rules.malformed(event, self.config.transaction_max_timeout_ms)
        if error is None and self.loading:
            error = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        elif error is None and self.coordinator_epoch is None:
            error = KafkaError.NOT_COORDINATOR
        if error is not None:
            return [rules.refusal(event, error)]
        match event:
            case InitProducerId():
                return self._init(event, now_ms)
            case AddPartitions():
                return self._add(event, now_ms)
            case VerifyPartitions():
                known = self._now(event.transactional_id)
                return [Answer(event.caller, rules.verifying(event, known))]
            case EndTransaction():
                return self._end(event, now_ms)
            case ForceAbort():
                return self._force_abort(event, now_ms)
            case Describe():
                entry = self.entries.get(event.transactional_id)
                return [Answer(event.caller, views.describe(event, entry))]
            case List():
                return [Answer(event.caller, views.listing(event, self.entries, now_ms))]
            case _:
                assert_never(event)

    def _now(self, transactional_id: str) -> Transaction | None:
        entry = self.entries.get(transactional_id)
        return entry.now if entry is not None else None

    def _init(
        self, event: InitProducerId, now_ms: int, granted: int = NO_PRODUCER_ID
    ) -> list[Effect]:
        entry = self.entries.setdefault(event.transactional_id, Entry())
        old, timeout_ms = entry.now, event.timeout_ms
        if entry.busy:
            return [rules.refusal(event, KafkaError.CONCURRENT_TRANSACTIONS)]
        if old is None:
            if granted == NO_PRODUCER_ID:
                return self._grant(event.transactional_id, event)
            return self._initialise(event, step.first(granted, timeout_ms, now_ms))
        if not rules.goes_on(event, old):
            return [rules.refusal(event, KafkaError.PRODUCER_FENCED)]
        if isinstance(old.state, Ongoing):
            return self._fence(event.transactional_id, event, now_ms, granted)
        expected = event.producer_epoch if event.producer_id != NO_PRODUCER_ID else None
        if old.exhausted and (expected is None or expected == old.epoch):
            if granted == NO_PRODUCER_ID:
                return self._grant(event.transactional_id, event)
            new = step.next_producer(old, granted, expected is not None, timeout_ms, now_ms)
            return self._initialise(event, new)
        bumped = step.next_epoch(old, expected, timeout_ms, now_ms)
        if bumped is None:
            return [rules.refusal(event, KafkaError.PRODUCER_FENCED)]
        return self._initialise(event, bumped)

    def _initialise(self, event: InitProducerId, new: Transaction) -> list[Effect]:
        answer = InitProducerIdAnswer(KafkaError.NONE, new.producer_id, new.epoch)
        return self._write(event.transactional_id, new, event, answer)

    def _add(self, event: AddPartitions, now_ms: int) -> list[Effect]:
        entry = self.entries.get(event.transactional_id)
        if entry is None:
            return [rules.refusal(event, KafkaError.INVALID_PRODUCER_ID_MAPPING)]
        if entry.busy or entry.now is None:
            return [rules.refusal(event, KafkaError.CONCURRENT_TRANSACTIONS)]
        error = rules.adding(event, entry.now)
        if error is not None:
            return [rules.refusal(event, error)]
        new = step.add(entry.now, event.partitions, event.version, now_ms)
        answer = AddPartitionsAnswer(KafkaError.NONE)
        return self._write(event.transactional_id, new, event, answer)

    def _end(
        self, event: EndTransaction, now_ms: int, granted: int = NO_PRODUCER_ID
    ) -> list[Effect]:
        entry = self.entries.get(event.transactional_id)
        if entry is None or entry.now is None:
            return [rules.refusal(event, KafkaError.INVALID_PRODUCER_ID_MAPPING)]
        ending = rules.ending(event, entry.now, entry.busy)
        if isinstance(ending, KafkaError):
            return [rules.refusal(event, ending)]
        if ending is not None:
            return [Answer(event.caller, ending)]
        if event.version >= TV2 and entry.now.exhausted and granted == NO_PRODUCER_ID:
            return self._grant(event.transactional_id, event)
        new = step.end(entry.now, event.commit, event.version, granted, now_ms)
        answer = EndTransactionAnswer(KafkaError.NONE)
        if event.version >= TV2:  # the producer goes on with what there is when this is complete
            done = step.complete(new, now_ms)
            answer = EndTransactionAnswer(KafkaError.NONE, done.producer_id, done.epoch)
        return self._write(event.transactional_id, new, event, answer)

    def _force_abort(
        self, event: ForceAbort, now_ms: int, granted: int = NO_PRODUCER_ID
    ) -> list[Effect]:
        entry = self.entries.get(event.transactional_id)
        if entry is None or entry.now is None:
            return [rules.refusal(event, KafkaError.TRANSACTIONAL_ID_NOT_FOUND)]
        if entry.busy:
            return [rules.refusal(event, KafkaError.CONCURRENT_TRANSACTIONS)]
        if not isinstance(entry.now.state, Ongoing):
            return [rules.refusal(event, KafkaError.INVALID_TXN_STATE)]
        return self._fence(event.transactional_id, event, now_ms, granted)

    def _fence(
        self,
        transactional_id: str,
        request: InitProducerId | ForceAbort | None,
        now_ms: int,
        granted: int,
    ) -> list[Effect]:
        """Aborts what is ongoing, under an epoch that its producer does not have."""
        old = self.entries[transactional_id].now
        assert old is not None and isinstance(old.state, Ongoing)
        version = self.config.transaction_version
        if version >= TV2 and old.exhausted and granted == NO_PRODUCER_ID:
            return self._grant(transactional_id, request)
        answer: AnyAnswer | None = None
        if isinstance(request, InitProducerId):  # which asks again until the abort is complete
            answer = InitProducerIdAnswer(KafkaError.CONCURRENT_TRANSACTIONS)
        elif isinstance(request, ForceAbort):
            answer = ForceAbortAnswer(KafkaError.NONE)
        new = step.fence(old, version, granted, now_ms)
        return self._write(transactional_id, new, request, answer)

    # ── effects, and how they went ──

    def _token(self, transactional_id: str) -> Token:
        self._last_token += 1
        self._tokens[self._last_token] = transactional_id
        return self._last_token

    def _grant(
        self, transactional_id: str, request: InitProducerId | EndTransaction | ForceAbort | None
    ) -> list[Effect]:
        token = self._token(transactional_id)
        self.entries[transactional_id].pending = Granting(token, request)
        return [NeedProducerId(token)]

    def _granted(self, token: Token, producer_id: int, now_ms: int) -> list[Effect]:
        transactional_id = self._tokens.pop(token, None)
        if transactional_id is None:
            return []  # unloaded in the meantime
        entry = self.entries[transactional_id]
        assert isinstance(entry.pending, Granting) and producer_id >= 0
        request, entry.pending = entry.pending.request, None
        match request:
            case InitProducerId():
                return self._init(request, now_ms, producer_id)
            case EndTransaction():
                return self._end(request, now_ms, producer_id)
            case ForceAbort():
                return self._force_abort(request, now_ms, producer_id)
            case None:
                return self._fence(transactional_id, None, now_ms, producer_id)

    def _write(
        self,
        transactional_id: str,
        new: Transaction,
        request: Request | None,
        answer: AnyAnswer | None,
    ) -> list[Effect]:
        token = self._token(transactional_id)
        reply = Answer(request.caller, answer) if request and answer else None
        self.entries[transactional_id].pending = Writing(token, new, request, reply)
        return [Append(token, new.record(transactional_id))]

    def _appended(self, token: Token, now_ms: int) -> list[Effect]:
        transactional_id = self._tokens.pop(token, None)
        if transactional_id is None:
            return []
        entry = self.entries[transactional_id]
        written = entry.pending
        assert isinstance(written, Writing)
        if isinstance(written.to.state, Dead):
            self._forget(transactional_id)
            return []
        entry.now, entry.pending, entry.retry_at_ms = written.to, None, 0
        effects: list[Effect] = [written.answer] if written.answer is not None else []
        if isinstance(entry.now.state, Prepare):
            effects += self._send(transactional_id, entry, now_ms)
        elif entry.sending is not None:
            del self._tokens[entry.sending.token]
            entry.sending = None
        self._schedule(transactional_id, entry)
        return effects

    def _failed(self, token: Token, error: KafkaError, now_ms: int) -> list[Effect]:
        """Nothing was written: all is as it was before. What was our own idea is tried again."""
        transactional_id = self._tokens.pop(token, None)
        if transactional_id is None:
            return []
        entry = self.entries[transactional_id]
        pending, entry.pending = entry.pending, None
        assert pending is not None
        if entry.now is None:
            self._forget(transactional_id)
        else:
            entry.retry_at_ms = now_ms + self.config.retry_ms
            self._schedule(transactional_id, entry)
        if pending.request is None:
            return []
        return [rules.refusal(pending.request, coordinator_errors.to_client(error))]

    def _forget(self, transactional_id: str) -> None:
        del self.entries[transactional_id]
        self._alarms.cancel(transactional_id)

    # ── markers ──

    def _send(self, transactional_id: str, entry: Entry, now_ms: int) -> list[Effect]:
        assert entry.now is not None
        partitions = entry.now.partitions
        entry.sending = Sending(self._token(transactional_id), dict.fromkeys(partitions))
        if not partitions:
            return self._complete(transactional_id, entry, now_ms)
        return [self._markers(transactional_id, entry.now, entry.sending.token, partitions)]

    def _markers(
        self,
        transactional_id: str,
        now: Transaction,
        token: Token,
        partitions: tuple[TopicPartition, ...],
    ) -> SendMarkers:
        assert self.coordinator_epoch is not None
        return SendMarkers(
            token=token,
            transactional_id=transactional_id,
            producer_id=now.producer_id,
            producer_epoch=now.epoch,
            coordinator_epoch=self.coordinator_epoch,
            commit=isinstance(now.state, PrepareCommit),
            partitions=partitions,
            version=now.version,
        )

    def _marker_written(
        self, token: Token, partition: TopicPartition, error: KafkaError | None, now_ms: int
    ) -> list[Effect]:
        transactional_id = self._tokens.get(token)
        if transactional_id is None:
            return []
        entry = self.entries[transactional_id]
        sending = entry.sending
        if sending is None or sending.token != token or not sending.left:
            return []
        waited = bool(sending.again)
        sending.heard(partition, error)
        if not sending.left:
            return self._complete(transactional_id, entry, now_ms)
        if sending.again and not waited:
            entry.retry_at_ms = now_ms + self.config.retry_ms
            self._schedule(transactional_id, entry)
        return []

    def _complete(self, transactional_id: str, entry: Entry, now_ms: int) -> list[Effect]:
        assert entry.now is not None
        return self._write(transactional_id, step.complete(entry.now, now_ms), None, None)

    # ── leadership ──

    def _load(
        self,
        records: Iterable[TransactionRecord | Tombstone],
        coordinator_epoch: int,
        now_ms: int,
    ) -> list[Effect]:
        effects = self._unload()
        self.coordinator_epoch = coordinator_epoch
        for record in records:
            if isinstance(record, Tombstone) or record.status == Status.DEAD:
                self.entries.pop(record.transactional_id, None)
            else:
                self.entries[record.transactional_id] = Entry(step.from_record(record))
        for transactional_id, entry in self.entries.items():
            assert entry.now is not None
            if isinstance(entry.now.state, Prepare):
                effects += self._send(transactional_id, entry, now_ms)
            self._schedule(transactional_id, entry)
        return effects

    def _unload(self) -> list[Effect]:
        pending = [entry.pending for entry in self.entries.values() if entry.pending is not None]
        self.coordinator_epoch, self.loading = None, False
        self.entries, self._tokens = {}, {}
        self._alarms = Alarms()
        requests = [under_way.request for under_way in pending if under_way.request is not None]
        return [rules.refusal(request, KafkaError.NOT_COORDINATOR) for request in requests]

    # ── time ──

    def _tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for transactional_id in self._alarms.due(now_ms, TICK_LIMIT):
            entry = self.entries[transactional_id]
            deadline_ms = entry.deadline_ms(self.config)
            if deadline_ms is not None and deadline_ms <= now_ms:
                effects += self._overdue(transactional_id, entry, now_ms)
            self._schedule(transactional_id, entry)
        return effects

    def _schedule(self, transactional_id: str, entry: Entry) -> None:
        deadline_ms = entry.deadline_ms(self.config)
        if deadline_ms is not None:
            self._alarms.by(transactional_id, deadline_ms)

    def _overdue(self, transactional_id: str, entry: Entry, now_ms: int) -> list[Effect]:
        now, sending = entry.now, entry.sending
        assert now is not None
        if sending is not None:
            if not sending.left:
                return self._complete(transactional_id, entry, now_ms)
            partitions, sending.again = tuple(sending.again), {}
            return [self._markers(transactional_id, now, sending.token, partitions)]
        if isinstance(now.state, Ongoing):
            return self._fence(transactional_id, None, now_ms, NO_PRODUCER_ID)
        return self._write(transactional_id, step.dead(now), None, None)

    # ── what must be true ──

    def check(self) -> None:
        assert self.coordinator_epoch is not None or not self.entries
        waiting: dict[Token, str] = {}
        for transactional_id, entry in self.entries.items():
            entry.check()
            for under_way in (entry.pending, entry.sending):
                if under_way is not None:
                    waiting[under_way.token] = transactional_id
            deadline_ms = entry.deadline_ms(self.config)
            alarm_ms = self._alarms.at(transactional_id)
            assert deadline_ms is None or (alarm_ms is not None and alarm_ms <= deadline_ms)
        assert waiting == self._tokens
        assert len(self._alarms) <= len(self.entries)
