"""Fetch: records, to consumers and followers.

Versions 4 to 18; later ones name topics by id. Fetch sessions are not kept: every answer is whole,
which the protocol allows (session id 0).

A consumer reads up to the high watermark, or with read_committed up to the last stable offset; it
may ask any replica. A follower reads to the end of its leader's log, and asking at an offset says
that it has everything below. If there is less than `min_bytes` the call is parked until there is
more, or its time is up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.fetcher import session_id
from sexton.node.outside import Caller
from sexton.node.replica import Leading, Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

READ_COMMITTED = 1
LATEST_REPLICA = -1  # a consumer


@dataclass(slots=True)
class _Answered:
    """One partition, as far as it can be answered now."""

    data: PartitionData
    final: bool = False  # an error or a cut: nobody should wait for more
    size: int = 0
    replica: Replica | None = None  # where more may come from


@dataclass(slots=True, eq=False)
class _Parked:
    caller: Caller
    request: FetchRequest
    number: int
    replicas: list[Replica] = field(default_factory=list)


class Fetch:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas
        self._parked: dict[int, _Parked] = {}
        self._count = 0

    def handle(self, caller: Caller, request: FetchRequest) -> None:
        follower = max(request.replica_id, request.replica_state.replica_id)
        if follower >= 0:
            self._note_progress(follower, request)
        response, waits = self._read(request)
        if waits is None or request.max_wait_ms <= 0:
            self._site.outside.answer(caller, response)
            return
        self._park(caller, request, waits)

    # ── what a follower's fetch says ──

    def _note_progress(self, node: int, request: FetchRequest) -> None:
        for topic in request.topics:
            for asked in topic.partitions:
                replica = self._replicas.by_partition.get(
                    TopicPartition(self._name(topic.topic, topic.topic_id), asked.partition)
                )
                if replica is None or not isinstance(replica.role, Leading):
                    continue
                role = replica.role
                if asked.current_leader_epoch != replica.leader_epoch:
                    continue
                if not registered(replica, role, node, asked) or _diverges(replica, asked):
                    continue
                effects = role.replication.fetched(
                    node, asked.fetch_offset, self._site.clock_ms,
                    request.replica_state.replica_epoch,
                )  # fmt: skip
                replica.replication_effects(role, effects)

    # ── reading ──

    def _read(self, request: FetchRequest) -> tuple[FetchResponse, list[Replica] | None]:
        """The answer, and whom to wait for if it is too little (None: send it)."""
        response = FetchResponse()
        room, size, final = request.max_bytes, 0, False
        waits: list[Replica] = []
        for topic in request.topics:
            name = self._name(topic.topic, topic.topic_id)
            answered = FetchableTopicResponse(topic=name, topic_id=topic.topic_id)
            for asked in topic.partitions:
                part = self._read_partition(
                    TopicPartition(name, asked.partition), asked, request, room
                )
                answered.partitions.append(part.data)
                size, room, final = size + part.size, room - part.size, final or part.final
                if part.replica is not None:
                    waits.append(part.replica)
            response.responses.append(answered)
        enough = final or size >= request.min_bytes or not waits
        return response, None if enough else waits

    def _read_partition(
        self, partition: TopicPartition, asked: FetchPartition, request: FetchRequest, room: int
    ) -> _Answered:
        data = PartitionData(partition_index=asked.partition, high_watermark=-1)
        try:
            return self._try_partition(partition, asked, request, room, data)
        except Refused as refused:
            data.error_code = refused.error
            return _Answered(data, final=True)

    def _try_partition(
        self,
        partition: TopicPartition,
        asked: FetchPartition,
        request: FetchRequest,
        room: int,
        data: PartitionData,
    ) -> _Answered:
        follower = max(request.replica_id, request.replica_state.replica_id)
        replica = self._replicas.get(partition)
        check_epoch(replica, asked.current_leader_epoch)
        log = replica.log
        data.high_watermark, data.last_stable_offset = log.high_watermark, log.last_stable_offset
        data.log_start_offset = log.log_start_offset
        if follower >= 0:
            role = replica.role
            if not isinstance(role, Leading):
                raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER, f"{partition} is led elsewhere")
            if not registered(replica, role, follower, asked):
                raise Refused(KafkaError.FETCH_SESSION_ID_NOT_FOUND, "register first")
        if _diverges(replica, asked):
            found = log.epochs.end_of(asked.last_fetched_epoch, log.end_offset)
            data.diverging_epoch = EpochEndOffset(found.epoch, found.start_offset)
            return _Answered(data, final=True)
        committed = request.isolation_level == READ_COMMITTED and follower < 0
        end = log.end_offset if follower >= 0 else log.high_watermark
        limit = min(asked.partition_max_bytes, max(room, 0))
        if room <= 0:
            data.records = b""
            return _Answered(data)
        read = log.read(asked.fetch_offset, limit, end=end, committed=committed)
        if committed:
            data.aborted_transactions = [
                AbortedTransaction(entry.producer_id, entry.first_offset) for entry in read.aborted
            ]
        data.records = b"" if read.slice is None else read.slice.read()
        return _Answered(data, size=len(data.records), replica=replica)

    def _name(self, topic: str, topic_id: bytes) -> str:
        if topic:
            return topic
        found = self._site.image.topic_by_id(topic_id.hex())
        return found.name if found else ""

    # ── waiting ──

    def _park(self, caller: Caller, request: FetchRequest, replicas: list[Replica]) -> None:
        self._count += 1
        number = self._count
        parked = _Parked(caller, request, number, replicas)
        self._parked[number] = parked
        for replica in replicas:
            replica.watchers[number] = lambda: self._look_again(number)
        self._site.outside.after(request.max_wait_ms, lambda: self._send(number))

    def _look_again(self, number: int) -> None:
        parked = self._parked.get(number)
        if parked is not None and self._read(parked.request)[1] is None:
            self._send(number)

    def _send(self, number: int) -> None:
        parked = self._parked.pop(number, None)
        if parked is None:
            return
        for replica in parked.replicas:
            replica.watchers.pop(number, None)
        self._site.outside.answer(parked.caller, self._read(parked.request)[0])


def registered(replica: Replica, role: Leading, node: int, asked: FetchPartition) -> bool:
    """May this follower fill its log from this one? Only in the session it was accepted in."""
    if node not in replica.record.replicas:
        return False
    if role.compaction is None:
        return True
    report = role.compaction.reports.get(node)
    return report is not None and session_id(report.session) == asked.replica_directory_id


def check_epoch(replica: Replica, epoch: int) -> None:
    """Whoever says which epoch it believes in is told if that is another one."""
    if 0 <= epoch < replica.leader_epoch:
        raise Refused(KafkaError.FENCED_LEADER_EPOCH, f"{replica.partition} has a later leader")
    if epoch > replica.leader_epoch:
        why = f"{replica.partition}: epoch {epoch} is not known here yet"
        raise Refused(KafkaError.UNKNOWN_LEADER_EPOCH, why)


def _diverges(replica: Replica, asked: FetchPartition) -> bool:
    """Does the asker's log have records that this one has not?"""
    if asked.last_fetched_epoch < 0:
        return False
    found = replica.log.epochs.end_of(asked.last_fetched_epoch, replica.log.end_offset)
    if found.epoch < 0:
        return False
    return found.epoch < asked.last_fetched_epoch or found.start_offset < asked.fetch_offset
