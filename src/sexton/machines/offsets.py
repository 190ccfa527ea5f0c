"""Which offset has a group committed, and since when does that count?

The committed offsets of one partition of `__consumer_offsets` are a fold of its log (`offset_table`
says how), as far as that is replicated:

    consumer ── Commit ──────▶ │         │ ── Append ────────▶ log
             ◀───── answer ─── │ offsets │ ◀── Appended ─────  below the high watermark
    coordinator ─ WriteMarker ▶│         │ ── AppendMarker ──▶
             ◀───── answer ─── │         │ ◀── Appended ─────  and the offsets applied

A commit is answered when its record is below the high watermark; only then can it be fetched, for
until then another leader might never have heard of it. A marker is answered in the step that
applied it, and nowhere else: once a transaction is known to be complete, a fetch shows its offsets.
(Apache Kafka once answered first and applied later; the next owner of a partition then started from
an old offset, KAFKA-17507.) Between a transaction's commit and its marker a fetch that wants a
stable offset is told to come back, from the moment the commit was accepted.

Membership is another machine's business: it says who may commit (`refused`) and which topics a
group is subscribed to (`GroupChanged`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import assert_never

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines import coordinator_errors
from sexton.machines.alarms import Alarms
from sexton.machines.offset_messages import (
    NO_PRODUCER_ID,
    Answer,
    AnyAnswer,
    Append,
    Appended,
    AppendFailed,
    AppendMarker,
    Commit,
    Delete,
    DeleteGroup,
    DeleteGroupAnswer,
    Effect,
    Event,
    Fetch,
    FetchAnswer,
    Fetched,
    GroupChanged,
    Load,
    LoadStarted,
    Marker,
    MarkerAnswer,
    OffsetRecord,
    PartitionErrors,
    Request,
    Tick,
    Token,
    TopicsDeleted,
    TopicsExist,
    Unload,
    WakeAt,
    WriteMarker,
)
from sexton.machines.offset_table import Key, OffsetTable, belongs

TICK_LIMIT = 1000  # offsets that one tick looks at
LAST_MS = 2**63 - 1  # that a record can hold; a commit that says it is kept for ever
MOST_TOMBSTONES = 1000  # in a batch, which must not be larger than max.message.bytes


@dataclass(frozen=True, slots=True)
class OffsetConfig:
    """Kafka's options, with Kafka's defaults."""

    offsets_retention_ms: int = 7 * 24 * 3600_000  # offsets.retention.minutes
    offset_metadata_max_bytes: int = 4096
    retry_ms: int = 1000  # the pause before tombstones are tried again; ours, not Kafka's


@dataclass(frozen=True, slots=True)
class _Write:
    """A batch that is not replicated yet."""

    entries: Sequence[OffsetRecord | Marker]
    request: Request | None  # None: nobody waits
    answer: AnyAnswer | None
    last: Token  # of several batches that were written for one request, the one with its answer

    @property
    def records(self) -> list[tuple[Key, OffsetRecord]]:
        return [(Key(e.group, e.partition), e) for e in self.entries if isinstance(e, OffsetRecord)]


@dataclass(slots=True)
class Offsets:
    config: OffsetConfig = field(default_factory=OffsetConfig)
    leading: bool = False
    loading: bool = False
    table: OffsetTable = field(default_factory=OffsetTable)
    memberships: dict[str, GroupChanged] = field(default_factory=dict)  # as last told
    _writes: OrderedDict[Token, _Write] = field(default_factory=OrderedDict)  # as in the log
    _in_flight: dict[Key, dict[Token, bool]] = field(default_factory=dict)  # in a transaction?
    _last_token: Token = 0
    _doomed: dict[Key, Token] = field(default_factory=dict)  # what it has up to there is to go
    _alarms: Alarms[Key] = field(default_factory=Alarms)

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
                return self._appended(token)
            case AppendFailed(token, error):
                return self._append_failed(token, error, now_ms)
            case GroupChanged():
                return self._group_changed(event)
            case TopicsDeleted(topics):
                return self._topics_deleted(dict(topics))
            case TopicsExist(topics):
                return self._doom(self.table.keys_of_no_topic(topics))
            case LoadStarted():
                unloaded = self._unload()
                self.loading = True
                return unloaded
            case Load(entries):
                return self._load(entries)
            case Unload():
                return self._unload()
            case Tick():
                return self._tick(now_ms)
            case _:
                return self._request(event, now_ms)

    def groups(self) -> frozenset[str]:
        """Those that have offsets, or are about to."""
        pending = {key.group for put_aside in self.table.pending.values() for key in put_aside}
        in_flight = {key.group for key in self._in_flight}
        return frozenset({*self.table.committed, *pending, *in_flight})

    # ── requests ──

    def _request(self, event: Request, now_ms: int) -> list[Effect]:
        error = KafkaError.NONE if isinstance(event, WriteMarker) else event.refused
        if self.loading:
            error = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        elif not self.leading:
            error = KafkaError.NOT_COORDINATOR
        if error is not KafkaError.NONE:
            return [_refusal(event, error)]
        match event:
            case Commit():
                return self._commit(event, now_ms)
            case WriteMarker():
                return self._write_marker(event)
            case Fetch():
                return self._fetch(event)
            case Delete():
                return self._delete(event)
            case DeleteGroup(_, group):
                in_flight = [key for key in self._in_flight if key.group == group]
                keys = list(dict.fromkeys([*self.table.keys_of(group), *in_flight]))
                return self._bury(keys, event, DeleteGroupAnswer(KafkaError.NONE))
            case _:
                assert_never(event)

    def _commit(self, event: Commit, now_ms: int) -> list[Effect]:
        records = []
        errors = []
        expire_ms = min(now_ms + event.retention_ms, LAST_MS) if event.retention_ms >= 0 else -1
        for partition, value in event.offsets:
            if len(value.metadata) > self.config.offset_metadata_max_bytes:
                errors.append((partition, KafkaError.OFFSET_METADATA_TOO_LARGE))
                continue
            errors.append((partition, KafkaError.NONE))
            kept = replace(value, commit_ms=now_ms, expire_ms=expire_ms)
            records.append(OffsetRecord(event.group, partition, kept, event.producer_id))
        answer = PartitionErrors(tuple(errors))
        if not records:
            return [Answer(event.caller, answer)]
        token = self._write(records, event, answer)
        return [Append(token, tuple(records), event.producer_id, event.producer_epoch)]

    def _write_marker(self, event: WriteMarker) -> list[Effect]:
        marker = Marker(event.producer_id, event.commit)
        token = self._write([marker], event, MarkerAnswer(KafkaError.NONE))
        append = AppendMarker(
            token,
            event.producer_id,
            event.producer_epoch,
            event.coordinator_epoch,
            event.commit,
            event.version,
        )
        return [append]

    def _fetch(self, event: Fetch) -> list[Effect]:
        offsets = []
        for partition in self._wanted(event):
            key = Key(event.group, partition)
            if event.require_stable and self._unstable(key):
                offsets.append(Fetched(partition, None, KafkaError.UNSTABLE_OFFSET_COMMIT))
            else:
                offsets.append(Fetched(partition, self.table.get(key)))
        return [Answer(event.caller, FetchAnswer(KafkaError.NONE, tuple(offsets)))]

    def _wanted(self, event: Fetch) -> Sequence[TopicPartition]:
        """For one who wants all, stable, also those whose first offset waits for a marker.

        Apache Kafka leaves them out, so that they look as if nothing was on its way.
        """
        if event.partitions is not None:
            return event.partitions
        if not event.require_stable:
            return sorted(self.table.committed.get(event.group, {}))
        in_flight = [k for k in self._in_flight if k.group == event.group and self._unstable(k)]
        return sorted({key.partition for key in (*self.table.keys_of(event.group), *in_flight)})

    def _unstable(self, key: Key) -> bool:
        return self.table.is_pending(key) or any(self._in_flight.get(key, {}).values())

    def _delete(self, event: Delete) -> list[Effect]:
        doomed = []
        errors = []
        for partition in event.partitions:
            if self._subscribed(event.group, partition.topic):
                errors.append((partition, KafkaError.GROUP_SUBSCRIBED_TO_TOPIC))
                continue
            errors.append((partition, KafkaError.NONE))
            key = Key(event.group, partition)
            pending = self.table.is_pending(key) or key in self._in_flight
            if pending or self.table.get(key) is not None:
                doomed.append(key)
        return self._bury(doomed, event, PartitionErrors(tuple(errors)))

    # ── the log ──

    def _topics_deleted(self, topics: dict[str, bytes]) -> list[Effect]:
        """Their offsets go, if not at the first attempt: another topic may come by the name."""
        in_flight = [
            key
            for write in self._writes.values()
            for key, record in write.records
            if record.value is not None and belongs(key.partition, record.value, topics)
        ]
        return self._doom(list(dict.fromkeys([*self.table.keys_of_topics(topics), *in_flight])))

    def _doom(self, keys: list[Key]) -> list[Effect]:
        self._doomed |= dict.fromkeys(keys, self._last_token)
        return self._bury(keys, None, None)

    def _bury(
        self, keys: list[Key], request: Request | None, answer: AnyAnswer | None
    ) -> list[Effect]:
        """Writes tombstones; the answer comes with the last of their batches."""
        if not keys:
            return [Answer(request.caller, answer)] if request and answer else []
        batches = [keys[at : at + MOST_TOMBSTONES] for at in range(0, len(keys), MOST_TOMBSTONES)]
        last = self._last_token + len(batches)
        effects: list[Effect] = []
        for batch in batches:
            tombstones = [OffsetRecord(key.group, key.partition, None) for key in batch]
            if batch is batches[-1]:
                token = self._write(tombstones, request, answer)
            else:
                token = self._write(tombstones, None, None, last)
            effects.append(Append(token, tuple(tombstones)))
        return effects

    def _write(
        self,
        entries: Sequence[OffsetRecord | Marker],
        request: Request | None,
        answer: AnyAnswer | None,
        last: Token | None = None,
    ) -> Token:
        self._last_token += 1
        token = self._last_token
        write = self._writes[token] = _Write(entries, request, answer, last or token)
        for key, record in write.records:
            self._in_flight.setdefault(key, {})[token] = record.producer_id != NO_PRODUCER_ID
        return token

    def _appended(self, token: Token) -> list[Effect]:
        """The high watermark passes the batches of a log in order, so earlier ones come first."""
        effects: list[Effect] = []
        if token not in self._writes:
            return effects  # of a term that is over, or applied along with a later one
        while self._writes and (earlier := next(iter(self._writes))) <= token:
            write = self._landed(earlier)
            for entry in write.entries:
                self._apply(entry, earlier)
            if write.request is not None and write.answer is not None:
                effects.append(Answer(write.request.caller, write.answer))
        return effects

    def _append_failed(self, token: Token, error: KafkaError, now_ms: int) -> list[Effect]:
        if token not in self._writes:
            return []
        write = self._landed(token)
        for key, _ in write.records:
            self._schedule(key, now_ms + self.config.retry_ms)
        request = write.request or self._take_request(write.last)
        if request is None:
            return []
        if not isinstance(request, WriteMarker):
            error = coordinator_errors.to_client(error)
        return [_refusal(request, error)]

    def _take_request(self, token: Token) -> Request | None:
        """One batch of several has failed: what becomes of the last is not the answer any more."""
        write = self._writes.get(token)
        if write is None:
            return None
        self._writes[token] = replace(write, request=None, answer=None)
        return write.request

    def _landed(self, token: Token) -> _Write:
        write = self._writes.pop(token)
        for key, _ in write.records:
            tokens = self._in_flight.get(key, {})
            if token in tokens:  # a batch may have two records of one key
                del tokens[token]
                if not tokens:
                    del self._in_flight[key]
        return write

    def _apply(self, entry: OffsetRecord | Marker, place: int) -> None:
        counts_at_once = isinstance(entry, OffsetRecord) and entry.producer_id == NO_PRODUCER_ID
        for key in self.table.apply(entry, place):
            if counts_at_once and self._doomed.get(key, place) < place:
                del self._doomed[key]  # nothing from before can come back
            if self.table.get(key) is None:
                self._alarms.cancel(key)
            else:
                self._schedule(key)

    # ── leadership ──

    def _load(self, entries: Iterable[OffsetRecord | Marker]) -> list[Effect]:
        effects = self._unload()
        self.leading = True
        for entry in entries:
            self._last_token += 1
            self._apply(entry, self._last_token)
        return effects

    def _unload(self) -> list[Effect]:
        waiting = [write.request for write in self._writes.values() if write.request is not None]
        self.leading = self.loading = False
        self.table, self.memberships = OffsetTable(), {}
        self._writes, self._in_flight, self._doomed = OrderedDict(), {}, {}
        self._alarms = Alarms()
        return [_refusal(request, KafkaError.NOT_COORDINATOR) for request in waiting]

    # ── membership and time ──

    def _group_changed(self, event: GroupChanged) -> list[Effect]:
        if not self.leading:
            return []
        if event == GroupChanged(event.group):
            self.memberships.pop(event.group, None)
        else:
            self.memberships[event.group] = event
        for partition in self.table.committed.get(event.group, {}):
            self._schedule(Key(event.group, partition))
        return []

    def _subscribed(self, group: str, topic: str) -> bool:
        membership = self.memberships.get(group)
        if membership is None:
            return False
        return membership.subscribed is None or topic in membership.subscribed

    def _tick(self, now_ms: int) -> list[Effect]:
        expired = []
        for key in self._alarms.due(now_ms, TICK_LIMIT):
            deadline_ms = self._deadline_ms(key)
            if deadline_ms is None:
                continue  # set again when that changes
            if deadline_ms <= now_ms:
                expired.append(key)
            else:
                self._alarms.by(key, deadline_ms)
        return self._bury(expired, None, None)

    def _schedule(self, key: Key, not_before_ms: int = 0) -> None:
        deadline_ms = self._deadline_ms(key)
        if deadline_ms is not None:
            self._alarms.by(key, max(deadline_ms, not_before_ms))

    def _deadline_ms(self, key: Key) -> int | None:
        """When the offset expires; None as long as something keeps it.

        A commit in flight does: its record may stand before the tombstone that we would write now.
        """
        value = self.table.get(key)
        if value is None or self.table.is_pending(key) or key in self._in_flight:
            return None
        if self._is_doomed(key):
            return 0
        if self._subscribed(key.group, key.partition.topic):
            return None
        if value.expire_ms >= 0:
            return value.expire_ms
        membership = self.memberships.get(key.group)
        empty_since_ms = membership.empty_since_ms if membership is not None else -1
        return max(value.commit_ms, empty_since_ms) + self.config.offsets_retention_ms

    def _is_doomed(self, key: Key) -> bool:
        """Is it an offset of a topic that was deleted?"""
        placed = self.table.committed[key.group][key.partition]
        return placed.place <= self._doomed.get(key, -1)

    # ── what must be true ──

    def check(self) -> None:
        self.table.check()
        if not self.leading:
            assert not self.table.committed and not self.table.pending and not self._writes
        in_flight: dict[Key, dict[Token, bool]] = {}
        for token, write in self._writes.items():
            for key, record in write.records:
                in_flight.setdefault(key, {})[token] = record.producer_id != NO_PRODUCER_ID
        assert in_flight == self._in_flight
        assert list(self._writes) == sorted(self._writes)
        for group, partitions in self.table.committed.items():
            for partition, placed in partitions.items():
                assert placed.place <= self._last_token
                key = Key(group, partition)
                assert self._deadline_ms(key) is None or self._alarms.at(key) is not None


def _refusal(event: Request, error: KafkaError) -> Answer:
    match event:
        case Commit():
            errors = tuple((partition, error) for partition, _ in event.offsets)
            return Answer(event.caller, PartitionErrors(errors))
        case WriteMarker():
            answer = MarkerAnswer(coordinator_errors.to_marker_writer(error))
            return Answer(event.caller, answer)
        case Fetch():
            return Answer(event.caller, FetchAnswer(error))
        case Delete():
            errors = tuple((partition, error) for partition in event.partitions)
            return Answer(event.caller, PartitionErrors(errors))
        case DeleteGroup():
            return Answer(event.caller, DeleteGroupAnswer(error))
        case _:
            assert_never(event)
