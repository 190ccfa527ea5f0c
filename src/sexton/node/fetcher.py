"""Copying from one leader: everything this broker follows there, in as few requests as possible.

    not yet accepted ──RegisterReplicas──▶ accepted ──Fetch──▶ append, or cut and fetch again

A partition is in at most one request under way. A parked fetch does not hold back a partition that
was accepted meanwhile: it gets a second request, and there are never more than two.
"""

from __future__ import annotations

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import compaction
from sexton.node.messages import RegisterReplicas, RegisterReplicasAnswer
from sexton.node.replica import Following, Replica
from sexton.node.site import Site
from sexton.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)

MOST_REQUESTS = 2


class Fetcher:
    def __init__(self, site: Site, leader: int) -> None:
        self._site = site
        self._leader = leader
        self._replicas: dict[TopicPartition, Replica] = {}
        self._busy: dict[TopicPartition, None] = {}  # in a request that is under way
        self._registering = False
        self._fetches = 0
        self._backing_off = False

    def follow(self, replica: Replica) -> None:
        self._replicas[replica.partition] = replica
        self.go_on()

    def leave(self, partition: TopicPartition) -> None:
        self._replicas.pop(partition, None)

    def __bool__(self) -> bool:
        return bool(self._replicas)

    def go_on(self) -> None:
        """Sends what can be sent now."""
        if self._backing_off:
            return
        self._register_new()
        ready = [r for r in self._idle() if _role(r).may_fetch]
        if ready and self._fetches < MOST_REQUESTS:
            self._fetch(ready)

    def _idle(self) -> list[Replica]:
        return [r for p, r in self._replicas.items() if p not in self._busy]

    # ── registering ──

    def _register_new(self) -> None:
        if self._registering:
            return
        waiting = [r for r in self._idle() if not _role(r).may_fetch]
        registers = []
        for replica in waiting:
            role = _role(replica)
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
        for partition, told in answer.answers:
            replica = self._replicas.get(partition)
            if replica is None or not isinstance(replica.role, Following):
                continue
            if isinstance(told, compaction.Refuse):
                refused = True
            else:
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

    def _fetch(self, replicas: list[Replica]) -> None:
        config = self._site.config
        topics: dict[str, FetchTopic] = {}
        asked: dict[TopicPartition, tuple[Replica, Following, int]] = {}
        for replica in replicas:
            topic, number = replica.partition
            role, log = _role(replica), replica.log
            entry = topics.setdefault(topic, FetchTopic(topic=topic))
            entry.partitions.append(
                FetchPartition(
                    partition=number,
                    current_leader_epoch=role.leader_epoch,
                    fetch_offset=log.end_offset,
                    last_fetched_epoch=log.epochs.latest,
                    log_start_offset=log.log_start_offset,
                    partition_max_bytes=config.replica_fetch_max_bytes,
                    replica_directory_id=session_id(replica.state.session),
                    high_watermark=log.high_watermark,
                )
            )
            asked[replica.partition] = (replica, role, log.end_offset)
            self._busy[replica.partition] = None
        request = FetchRequest(
            replica_id=self._site.node,
            replica_state=ReplicaState(self._site.node, self._site.broker_epoch),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=1,
            max_bytes=config.replica_fetch_response_max_bytes,
            topics=list(topics.values()),
        )
        self._fetches += 1

        def then(answer: object | None) -> None:
            self._fetches -= 1
            for partition in asked:
                self._busy.pop(partition, None)
            if isinstance(answer, FetchResponse) and answer.error_code == 0:
                self._take(answer, asked)
            else:
                self._back_off()
            self.go_on()

        timeout = config.request_timeout_ms + config.replica_fetch_wait_max_ms
        self._site.outside.ask(self._leader, request, then, timeout)

    def _take(
        self, answer: FetchResponse, asked: dict[TopicPartition, tuple[Replica, Following, int]]
    ) -> None:
        failed = False
        for topic in answer.responses:
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition_index)
                if partition not in asked:
                    continue
                replica, role, offset = asked[partition]
                # Since it was sent the log may have been cut, emptied or handed to another leader.
                if replica.role is role and role.may_fetch and replica.log.end_offset == offset:
                    failed |= not self._take_partition(replica, data)
        if failed:
            self._back_off()

    def _take_partition(self, replica: Replica, data: PartitionData) -> bool:
        """Appends what came; False if there is nothing to be had right now."""
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
        try:
            if data.records:
                log.append_as_follower(data.records, now_ms)
        except (Refused, CorruptLog):
            return False  # a full disk, or bytes that did not arrive as they were: ask again
        log.advance_high_watermark(data.high_watermark)
        if data.log_start_offset > log.log_start_offset:
            log.delete_records(min(data.log_start_offset, log.high_watermark), now_ms)
        replica.notify()
        return True

    def _start_where_leader_starts(self, replica: Replica, data: PartitionData) -> bool:
        if data.log_start_offset <= replica.log.end_offset:
            return False
        replica.discard(data.log_start_offset)
        return True


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
