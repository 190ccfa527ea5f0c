"""Fetch: records, to consumers and followers.

Versions 4 to 18; from 13 on topics are named by id. The broker sends nobody to a follower (there is
no replica selector), but every replica answers whoever asks it.

A consumer reads up to the high watermark, or with read_committed up to the last stable offset. A
follower reads to the end of its leader's log, and asking at an offset says that it has everything
below. If there is less than `min_bytes` the request is parked until there is more, or its time is
up, or the next one of its session comes. It is dropped when its client has gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.partition import PartitionLog
from sexton.log.segment import Slice
from sexton.node.fetch_sessions import (
    NO_SESSION,
    FetchSession,
    FetchSessions,
    Key,
    Parked,
    Watched,
    asked_in,
)
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
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

READ_COMMITTED = 1
CURRENT_LEADER_VERSION = 12  # from here on an answer can say who leads
ENDPOINTS_VERSION = 16  # and where
NO_ID = bytes(16)


@dataclass(slots=True, eq=False)
class _Found:
    """What there is for one partition now."""

    watched: Watched
    data: PartitionData
    slice: Slice | None = None
    final: bool = False  # an error or a cut: nobody should wait for more
    skipped: bool = False  # there was no room

    @property
    def size(self) -> int:
        return 0 if self.slice is None else self.slice.size

    @property
    def offsets(self) -> tuple[int, int, int]:
        data = self.data
        return data.high_watermark, data.last_stable_offset, data.log_start_offset


class Fetch:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas
        self.sessions = FetchSessions(site)
        self._count = 0
        self._parked: dict[int, FetchSession] = {}  # by the number of what waits
        self._numbers: dict[Caller, int] = {}
        # All partitions of a follower's session were fetched, whether they are named or not. Who
        # notes that every time does much for nothing: it matters when the ISR is looked at.
        self._touch_ms = site.config.replica_lag_time_max_ms // 20

    def handle(self, caller: Caller, request: FetchRequest, version: int) -> None:
        follower = max(request.replica_id, request.replica_state.replica_id)
        try:
            session = self.sessions.find(request, follower)
        except Refused as refused:
            self._site.outside.answer(caller, FetchResponse(error_code=refused.error))
            return
        if session.parked is not None:
            self._send(session, session.parked)
        session.stirred, session.version = self._stirred, version
        session.update(request)
        if follower >= 0:
            self._note_progress(session, request)
        found, enough = self._look(session, request)
        if enough or request.max_wait_ms <= 0:
            self._answer(session, caller, found)
        else:
            self._park(session, caller, request)

    # ── what a follower's fetch says ──

    def _note_progress(self, session: FetchSession, request: FetchRequest) -> None:
        now_ms = self._site.clock_ms
        if now_ms - session.touched_ms >= self._touch_ms:
            session.touched_ms = now_ms
            noted = [(key, watched.asked) for key, watched in session.partitions.items()]
        else:
            noted = list(asked_in(request))
        for key, asked in noted:
            replica = self._replicas.by_partition.get(self._partition(key))
            if replica is None or not isinstance(replica.role, Leading):
                continue
            role = replica.role
            if asked.current_leader_epoch != replica.leader_epoch:
                continue
            if not registered(replica, role, session.follower, asked) or _diverges(replica, asked):
                continue
            effects = role.replication.fetched(
                session.follower, asked.fetch_offset, now_ms, request.replica_state.replica_epoch
            )
            replica.replication_effects(role, effects)

    # ── looking ──

    def _look(self, session: FetchSession, request: FetchRequest) -> tuple[list[_Found], bool]:
        """What is there for those of whom something is expected, and whether that is enough."""
        room, size, final, waits = request.max_bytes, 0, False, False
        found: list[_Found] = []
        for key in session.fresh:
            watched = session.partitions[key]
            each = self._find(session, watched, request, room)
            size, room = size + each.size, room - each.size
            final |= each.final
            waits |= not each.final
            found.append(each)
        waits |= len(session.partitions) > len(found)
        return found, final or size >= request.min_bytes or not waits

    def _find(
        self, session: FetchSession, watched: Watched, request: FetchRequest, room: int
    ) -> _Found:
        key = watched.key
        found = _Found(watched, PartitionData(partition_index=key.partition, high_watermark=-1))
        partition = self._partition(key)
        try:
            if not partition.topic:
                raise Refused(KafkaError.UNKNOWN_TOPIC_ID, f"no topic has the id {key.topic_id!r}")
            session.watch(watched, self._replicas.by_partition.get(partition))
            self._find_in(self._replicas.get(partition), session, found, request, room)
        except Refused as refused:
            found.final, found.data.error_code = True, refused.error
            record = self._site.image.partitions.get(partition)
            knows = session.version >= CURRENT_LEADER_VERSION and record is not None
            if refused.error == KafkaError.NOT_LEADER_OR_FOLLOWER and knows:
                assert record is not None
                found.data.current_leader = LeaderIdAndEpoch(record.leader, record.leader_epoch)
        except CorruptLog:  # the others in the request are as sound as before
            found.final, found.data.error_code = True, KafkaError.CORRUPT_MESSAGE
        return found

    def _find_in(
        self,
        replica: Replica,
        session: FetchSession,
        found: _Found,
        request: FetchRequest,
        room: int,
    ) -> None:
        asked, data, log = found.watched.asked, found.data, replica.log
        check_epoch(replica, asked.current_leader_epoch)
        data.high_watermark, data.last_stable_offset = log.high_watermark, last_stable(log)
        data.log_start_offset = log.log_start_offset
        if session.follower >= 0:
            role = replica.role
            if not isinstance(role, Leading):
                why = f"{replica.partition} is led elsewhere"
                raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER, why)
            if not registered(replica, role, session.follower, asked):
                raise Refused(KafkaError.FETCH_SESSION_ID_NOT_FOUND, "register first")
        if _diverges(replica, asked):
            ended = log.epochs.end_of(asked.last_fetched_epoch, log.end_offset)
            data.diverging_epoch = EpochEndOffset(ended.epoch, ended.start_offset)
            found.final = True
            return
        if room <= 0:
            found.skipped = True
            return
        committed = request.isolation_level == READ_COMMITTED and session.follower < 0
        end = log.end_offset if session.follower >= 0 else log.high_watermark
        limit = min(asked.partition_max_bytes, room)
        read = log.read(asked.fetch_offset, limit, end=end, committed=committed)
        if committed:
            data.aborted_transactions = [
                AbortedTransaction(entry.producer_id, entry.first_offset) for entry in read.aborted
            ]
        found.slice = read.slice

    def _partition(self, key: Key) -> TopicPartition:
        if key.topic_id == NO_ID:
            return TopicPartition(key.topic, key.partition)
        return TopicPartition(self._site.topic_name(key.topic_id), key.partition)

    # ── answering ──

    def _answer(self, session: FetchSession, caller: Caller, found: list[_Found]) -> None:
        response = FetchResponse(session_id=session.id)
        topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        for each in found:
            watched, data = each.watched, each.data
            changed = each.slice is not None or each.final or each.offsets != watched.told
            watched.told = each.offsets
            # Who got records, or an error, is asked again whatever comes; who waits for room first.
            session.fresh.pop(watched.key, None)
            if each.slice is not None or each.final or each.skipped:
                session.fresh[watched.key] = None
            if not changed and not session.is_whole:
                continue
            data.records = b"" if each.slice is None else each.slice.read()
            name, topic_id, _ = watched.key
            topic = topics.get((name, topic_id))
            if topic is None:
                topic = topics[name, topic_id] = FetchableTopicResponse(name, topic_id)
            topic.partitions.append(data)
        response.responses = list(topics.values())
        if session.version >= ENDPOINTS_VERSION:
            self._say_where(response, [each.data for each in found if each.data.error_code])
        if session.id == NO_SESSION:
            session.close()
        self._site.outside.answer(caller, response)

    def _say_where(self, response: FetchResponse, refused: list[PartitionData]) -> None:
        """Leaders that it names: a client may never have heard of them."""
        for leader in dict.fromkeys(each.current_leader.leader_id for each in refused):
            endpoint = self._site.endpoint_of(leader)
            if endpoint is not None:
                response.node_endpoints.append(NodeEndpoint(*endpoint))

    # ── waiting ──

    def _park(self, session: FetchSession, caller: Caller, request: FetchRequest) -> None:
        self._count += 1
        number = self._numbers[caller] = self._count
        session.parked = Parked(caller, request, number)
        self._parked[number] = session
        # The alarm outlives a client that leaves, and shall not keep what it had asked for.
        self._site.outside.after(request.max_wait_ms, lambda: self._time_is_up(number))

    def _unpark(self, session: FetchSession, parked: Parked) -> None:
        session.parked = None
        del self._parked[parked.number]
        self._numbers.pop(parked.caller, None)  # not there if it came twice

    def _time_is_up(self, number: int) -> None:
        session = self._parked.get(number)
        if session is not None and session.parked is not None:
            self._send(session, session.parked)

    def left(self, caller: Caller) -> None:
        """Its session, if it has one, stays: it may go on over another connection."""
        session = self._parked.get(self._numbers.pop(caller, -1))
        if session is not None and session.parked is not None:
            self._unpark(session, session.parked)
            if session.id == NO_SESSION:
                session.close()

    def _stirred(self, session: FetchSession) -> None:
        """Something may be there now for a request that is parked."""
        parked = session.parked
        if parked is not None:
            found, enough = self._look(session, parked.request)
            if enough:
                self._unpark(session, parked)
                self._answer(session, parked.caller, found)

    def _send(self, session: FetchSession, parked: Parked) -> None:
        """What is there, however little."""
        self._unpark(session, parked)
        self._answer(session, parked.caller, self._look(session, parked.request)[0])


def registered(replica: Replica, role: Leading, node: int, asked: FetchPartition) -> bool:
    """May this follower fill its log from this one? Only in the session it was accepted in."""
    if node not in replica.record.replicas:
        return False
    if role.compaction is None:
        return True
    report = role.compaction.reports.get(node)
    return report is not None and session_id(report.session) == asked.replica_directory_id


def last_stable(log: PartitionLog) -> int:
    """As consumers are told of it: never below where the log starts, as in Kafka.

    An open transaction may begin below that: a reader sent there would be refused every time.
    """
    return max(log.last_stable_offset, min(log.log_start_offset, log.high_watermark))


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
