"""Copying from one leader: everything this broker follows there, in one fetch session.

    not yet accepted ──RegisterReplicas──▶ accepted ──Fetch──▶ append, or cut and fetch again

The session (KIP-227) keeps the leader informed of where each log ends; a request names only what
has changed since the last one. A parked request does not hold back a partition that was accepted
meanwhile: a second request overtakes it, and there are never more than two under way. If anything
goes wrong with a session, the next request begins another. If something is wrong with one
partition, it leaves the session for a while and the others go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.partition import PartitionLog
from sexton.machines import compaction
from sexton.node.messages import RegisterReplicas, RegisterReplicasAnswer
from sexton.node.replica import Following, Replica
from sexton.node.site import Site
from sexton.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from sexton.protocol.wire import Buffer
from sexton.records.layout import HEADER_BYTES, read_header

MOST_REQUESTS = 2
_SESSION_IS_LOST = (
    KafkaError.FETCH_SESSION_ID_NOT_FOUND,
    KafkaError.INVALID_FETCH_SESSION_EPOCH,
)


@dataclass(slots=True, eq=False)
class _Told:
    """Where a log ended when the leader was last told, and by which request."""

    request: int
    role: Following
    end_offset: int


@dataclass(slots=True, eq=False)
class _Session:
    """What a leader knows by earlier requests."""

    id: int = 0
    epoch: int = 0  # of the next request
    told: dict[TopicPartition, _Told] = field(default_factory=dict)


class Fetcher:
    def __init__(self, site: Site, leader: int) -> None:
        self._site = site
        self._leader = leader
        self._replicas: dict[TopicPartition, Replica] = {}
        self._news: dict[TopicPartition, None] = {}  # what the leader has to be told of
        self._registering = False
        self._session = _Session()
        self._fetches = 0  # under way
        self._number = 0  # of the last request
        self._backing_off = False
        self._paused: dict[TopicPartition, None] = {}  # could not be had a moment ago
        self._no_room = False  # for a session, when the leader was last asked for one

    def follow(self, replica: Replica) -> None:
        self._replicas[replica.partition] = replica
        self._news[replica.partition] = None
        self._paused.pop(replica.partition, None)  # what was wrong may have been the term
        self.go_on()

    def leave(self, partition: TopicPartition) -> None:
        """The next request says so, if the leader knows of it at all."""
        if self._replicas.pop(partition, None) is not None:
            self._news[partition] = None

    def __bool__(self) -> bool:
        return bool(self._replicas)

    def go_on(self) -> None:
        """Sends what can be sent now."""
        if self._backing_off:
            return
        self._register_new()
        told = self._session.told
        news = [p for p in self._news if p in told or self._may_fetch(p)]
        if self._fetches == 0:
            if news or told:
                self._fetch(news)
        elif news and self._fetches < MOST_REQUESTS and self._session.id:
            self._fetch(news)

    def _may_fetch(self, partition: TopicPartition) -> bool:
        if partition in self._paused:
            return False
        replica = self._replicas.get(partition)
        return replica is not None and _role(replica).may_fetch

    # ── registering ──

    def _register_new(self) -> None:
        if self._registering:
            return
        registers = []
        for replica in [self._replicas[p] for p in self._news if p in self._replicas]:
            role = _role(replica)
            if role.may_fetch:
                continue
            if role.register is None:
                replica.register()
            assert role.register is not None
            registers.append((replica.partition, role.register))
            role.register = None
        if not registers:
            return
        self._registering = True
        timeout = self._site.config.request_timeout_ms
        request = RegisterReplicas(tuple(registers))
        self._site.outside.ask(self._leader, request, self._registered, timeout)

    def _registered(self, answer: object | None) -> None:
        self._registering = False
        if not isinstance(answer, RegisterReplicasAnswer):
            self._back_off()
            return
        refused = False
        for partition, told, epochs in answer.answers:
            replica = self._replicas.get(partition)
            if replica is None or not isinstance(replica.role, Following):
                continue
            if isinstance(told, compaction.Refuse):
                refused = True
            else:
                replica.role.epochs = epochs
                replica.follower_effects(replica.state.handle(told))
        if refused:
            self._back_off()  # the others go on with it
        self.go_on()

    def _back_off(self) -> None:
        if not self._backing_off:
            self._backing_off = True
            self._site.outside.after(self._site.config.replica_fetch_backoff_ms, self._try_again)

    def _try_again(self) -> None:
        self._backing_off = False
        self.go_on()

    # ── fetching ──

    def _fetch(self, news: list[TopicPartition]) -> None:
        config, session = self._site.config, self._session
        self._number += 1
        number = self._number
        request = FetchRequest(
            replica_id=self._site.node,
            replica_state=ReplicaState(self._site.node, self._site.broker_epoch),
            # The first answer of a session is its id, without which nothing can be added to it.
            # But who is not given one would ask again and again, and waits for records instead.
            max_wait_ms=config.replica_fetch_wait_max_ms if session.id or self._no_room else 0,
            min_bytes=1,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
        )
        topics: dict[str, FetchTopic] = {}
        forgotten: dict[str, ForgottenTopic] = {}
        for partition in news:
            topic, index = partition
            del self._news[partition]
            if self._may_fetch(partition):
                entry = topics.setdefault(topic, FetchTopic(topic=topic))
                entry.partitions.append(self._tell(partition, number))
                continue
            del session.told[partition]
            forgotten.setdefault(topic, ForgottenTopic(topic=topic)).partitions.append(index)
            if partition in self._replicas:
                self._news[partition] = None  # once it is accepted, or its pause is over
        request.topics = list(topics.values())
        request.forgotten_topics_data = list(forgotten.values())
        session.epoch += 1
        self._fetches += 1

        def then(answer: object | None) -> None:
            self._fetches -= 1
            if session is self._session:
                self._answered(session, number, answer)
            self.go_on()

        timeout = config.request_timeout_ms + config.replica_fetch_wait_max_ms
        self._site.outside.ask(self._leader, request, then, timeout)

    def _tell(self, partition: TopicPartition, number: int) -> FetchPartition:
        replica = self._replicas[partition]
        role, log = _role(replica), replica.log
        self._session.told[partition] = _Told(number, role, log.end_offset)
        return FetchPartition(
            partition=partition.partition,
            current_leader_epoch=role.leader_epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.epochs.latest,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=self._site.config.replica_fetch_max_bytes,
            replica_directory_id=session_id(replica.state.session),
            high_watermark=log.high_watermark,
        )

    def _answered(self, session: _Session, number: int, answer: object | None) -> None:
        if not isinstance(answer, FetchResponse):
            self._begin_anew()
            self._back_off()
        elif answer.error_code != KafkaError.NONE:
            self._begin_anew()
            if answer.error_code not in _SESSION_IS_LOST:
                self._back_off()
        else:
            session.id = answer.session_id
            self._no_room = not session.id
            self._take(session, number, answer)
            if self._no_room and session is self._session:
                self._begin_anew()

    def _begin_anew(self) -> None:
        self._session = _Session()
        self._news = dict.fromkeys(self._replicas)

    def _take(self, session: _Session, number: int, answer: FetchResponse) -> None:
        failed = []
        for topic in answer.responses:
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition_index)
                told, replica = session.told.get(partition), self._replicas.get(partition)
                if told is None or replica is None or told.request > number:
                    continue
                # Since it was sent the log may have been cut, emptied or handed to another leader.
                if replica.role is not told.role or not told.role.may_fetch:
                    continue
                if replica.log.end_offset == told.end_offset:
                    if not self._take_partition(replica, data):
                        failed.append(partition)
                    if data.records or data.error_code or data.diverging_epoch.end_offset >= 0:
                        self._news[partition] = None
        if failed:
            self._pause(failed)

    def _pause(self, partitions: list[TopicPartition]) -> None:
        self._paused |= dict.fromkeys(partitions)

        def resume() -> None:
            for partition in partitions:
                self._paused.pop(partition, None)
            self.go_on()

        self._site.outside.after(self._site.config.replica_fetch_backoff_ms, resume)

    def _take_partition(self, replica: Replica, data: PartitionData) -> bool:
        """Does what the leader says of one; False if there is nothing to be had right now."""
        try:
            return self._append_or_cut(replica, data)
        except CorruptLog:
            return False  # this log is damaged, or bytes did not arrive as they were: ask again

    def _append_or_cut(self, replica: Replica, data: PartitionData) -> bool:
        error = KafkaError(data.error_code)
        if error == KafkaError.FETCH_SESSION_ID_NOT_FOUND:
            replica.register()  # the leader has lost or replaced what it knew of this log
            return True
        if error == KafkaError.OFFSET_OUT_OF_RANGE:
            return self._start_where_leader_starts(replica, data)
        if error != KafkaError.NONE:
            return False
        if data.diverging_epoch.end_offset >= 0:
            _cut(replica, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            return True
        log, now_ms = replica.log, self._site.now_ms
        begin = _start_of_batch(log, data.records)
        if begin is not None:
            replica.discard(begin)
        try:
            noted = _role(replica).epochs
            if data.records and log.append_as_follower(data.records, now_ms, noted) is None:
                return False  # not one whole batch: its length is damaged
        except Refused:
            return False  # a full disk
        log.advance_high_watermark(data.high_watermark)
        if data.log_start_offset > log.log_start_offset:
            log.delete_records(min(data.log_start_offset, log.high_watermark))
        replica.notify()
        return True

    def _start_where_leader_starts(self, replica: Replica, data: PartitionData) -> bool:
        if data.log_start_offset <= replica.log.end_offset:
            return False
        replica.discard(data.log_start_offset)
        return True


def _start_of_batch(log: PartitionLog, records: Buffer | None) -> int | None:
    """Where the first batch begins, if this log is empty and would begin within that batch.

    Records may be deleted up to any offset, but a leader sends whole batches. The log start is then
    moved to where it belongs, as everywhere.
    """
    is_empty = len(log.segments) == 1 and log.active.size == 0
    if not is_empty or records is None or len(records) < HEADER_BYTES:
        return None
    first = read_header(records, 0, log.directory)
    return first.base_offset if first.base_offset < log.end_offset <= first.last_offset else None


def session_id(session: int) -> bytes:
    """The session in which a replica was accepted, in the place of Kafka's directory id.

    A fetch that was sent before the log was emptied must not count for the log that is there now.
    """
    return session.to_bytes(16, "big")


def _role(replica: Replica) -> Following:
    assert isinstance(replica.role, Following)
    return replica.role


def _cut(replica: Replica, epoch: int, end_offset: int) -> None:
    """Cuts where this log and the leader's part: at the end of the last epoch that both have."""
    log = replica.log
    mine = log.epochs.end_of(epoch, log.end_offset)
    if mine.epoch < 0:
        cut_at = end_offset  # nothing here is as old as that
    elif mine.epoch < epoch:
        cut_at = mine.start_offset  # the leader has an epoch in between that this log has not
    else:
        cut_at = min(end_offset, mine.start_offset)
    replica.truncate(min(cut_at, log.end_offset))
