"""Committed offsets of groups: OffsetCommit, TxnOffsetCommit, OffsetFetch.

Versions 2 to 9, 0 to 5 and 1 to 9. `machines.offsets` decides, one machine for each partition of
`__consumer_offsets` that this broker leads. Whether a member may commit for its group is the
membership's business and is asked of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import offset_messages as machine
from sexton.machines.offset_log import from_bytes, to_bytes
from sexton.machines.offsets import OffsetConfig, Offsets
from sexton.node.coordinators import CONSUMER_OFFSETS, Coordinators, stored_batches
from sexton.node.outside import Caller
from sexton.node.replica import Replica
from sexton.node.site import Site
from sexton.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from sexton.protocol.messages.write_txn_markers import WritableTxnMarker
from sexton.records.control import ControlType, first_control_record, marker_batch
from sexton.records.few import few_batch, few_records

Then = Callable[[machine.AnyAnswer], None]
Errors = dict[TopicPartition, KafkaError]
GROUPS_VERSION = 8  # OffsetFetch asks for several groups from here on


class GroupOffsets:
    def __init__(self, site: Site, coordinators: Coordinators) -> None:
        self._site = site
        self._coordinators = coordinators
        self.machines: dict[TopicPartition, Offsets] = {}
        coordinators.keep(CONSUMER_OFFSETS, self._load, self._unload)

    # ── taking over and handing over ──

    def _load(self, replica: Replica) -> None:
        config = OffsetConfig(
            offsets_retention_ms=self._site.config.offsets_retention_minutes * 60_000
        )
        self.machines[replica.partition] = Offsets(config)
        self._tell(replica.partition, machine.Load(_stored(replica)))

    def _unload(self, partition: TopicPartition) -> None:
        if partition in self.machines:
            self._tell(partition, machine.Unload())
            del self.machines[partition]

    def _tell(self, partition: TopicPartition, event: machine.Event) -> None:
        offsets = self.machines.get(partition)
        if offsets is None:
            return
        for effect in offsets.handle(event, self._site.now_ms):
            match effect:
                case machine.Append():
                    batch = few_batch(
                        [to_bytes(record) for record in effect.records],
                        self._site.now_ms,
                        producer_id=effect.producer_id,
                        producer_epoch=effect.producer_epoch,
                        transactional=effect.producer_id >= 0,
                    )
                    self._append(partition, effect.token, batch)
                case machine.AppendMarker():
                    batch = marker_batch(
                        ControlType.COMMIT if effect.commit else ControlType.ABORT,
                        producer_id=effect.producer_id,
                        producer_epoch=effect.producer_epoch,
                        coordinator_epoch=effect.coordinator_epoch,
                        timestamp=self._site.now_ms,
                    )
                    self._append(partition, effect.token, batch)
                case machine.Answer(caller, answer):
                    cast("Then", caller)(answer)
                case machine.WakeAt(at_ms):
                    self._tick_at(partition, offsets, at_ms)

    def _tick_at(self, partition: TopicPartition, offsets: Offsets, at_ms: int) -> None:
        def tick() -> None:
            if self.machines.get(partition) is offsets:
                self._tell(partition, machine.Tick())

        self._site.outside.after(max(at_ms - self._site.now_ms, 0), tick)

    def _append(self, partition: TopicPartition, token: int, batch: bytes) -> None:
        offsets = self.machines[partition]

        def tell(event: machine.Event) -> None:
            if self.machines.get(partition) is offsets:
                self._tell(partition, event)

        try:
            replica = self._coordinators.replica(partition)
            done = replica.append(batch, client=False)
        except Refused as refused:
            failed = machine.AppendFailed(token, refused.error)
            self._site.outside.after(0, lambda: tell(failed))
            return

        def replicated(error: KafkaError) -> None:
            if error == KafkaError.NONE:
                tell(machine.Appended(token))

        replica.acknowledge(done.last_offset, replicated)

    # ── calls ──

    def _request(self, group: str, request: machine.Request) -> KafkaError:
        try:
            partition = self._coordinators.partition_of(CONSUMER_OFFSETS, group)
            self._coordinators.replica(partition)
        except Refused as refused:
            if refused.error == KafkaError.COORDINATOR_NOT_AVAILABLE:
                return refused.error
            return KafkaError.NOT_COORDINATOR
        if partition not in self.machines:
            return KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        self._tell(partition, request)
        return KafkaError.NONE

    def commit(self, caller: Caller, request: OffsetCommitRequest, _version: int) -> None:
        wanted = {
            TopicPartition(topic.name, p.partition_index): machine.CommittedOffset(
                p.committed_offset, p.committed_metadata or "", p.committed_leader_epoch
            )
            for topic in request.topics
            for p in topic.partitions
        }

        def finish(errors: Errors) -> None:
            response = OffsetCommitResponse()
            for topic in request.topics:
                parts = [
                    OffsetCommitResponsePartition(
                        p.partition_index, errors[TopicPartition(topic.name, p.partition_index)]
                    )
                    for p in topic.partitions
                ]
                answered = OffsetCommitResponseTopic(topic.name, topic.topic_id, parts)
                response.topics.append(answered)
            self._site.outside.answer(caller, response)

        commit = machine.Commit(
            _errors_to(finish), request.group_id, tuple(wanted.items()),
            retention_ms=request.retention_time_ms,
        )  # fmt: skip
        failed = self._request(request.group_id, commit)
        if failed:
            finish(dict.fromkeys(wanted, failed))

    def commit_in_transaction(
        self, caller: Caller, request: TxnOffsetCommitRequest, _version: int
    ) -> None:
        wanted = {
            TopicPartition(topic.name, p.partition_index): machine.CommittedOffset(
                p.committed_offset, p.committed_metadata or "", p.committed_leader_epoch
            )
            for topic in request.topics
            for p in topic.partitions
        }

        def finish(errors: Errors) -> None:
            response = TxnOffsetCommitResponse()
            for topic in request.topics:
                parts = [
                    TxnOffsetCommitResponsePartition(
                        p.partition_index, errors[TopicPartition(topic.name, p.partition_index)]
                    )
                    for p in topic.partitions
                ]
                response.topics.append(TxnOffsetCommitResponseTopic(topic.name, parts))
            self._site.outside.answer(caller, response)

        commit = machine.Commit(
            _errors_to(finish), request.group_id, tuple(wanted.items()), request.producer_id,
            request.producer_epoch,
        )  # fmt: skip
        failed = self._request(request.group_id, commit)
        if failed:
            finish(dict.fromkeys(wanted, failed))

    def write_marker(
        self,
        partition: TopicPartition,
        marker: WritableTxnMarker,
        written: Callable[[KafkaError], None],
    ) -> None:
        if partition not in self.machines:
            written(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
            return

        def then(answer: machine.AnyAnswer) -> None:
            assert isinstance(answer, machine.MarkerAnswer)
            written(answer.error)

        request = machine.WriteMarker(
            then, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch,
            marker.transaction_result, marker.transaction_version,
        )  # fmt: skip
        self._tell(partition, request)

    def fetch(self, caller: Caller, request: OffsetFetchRequest, version: int) -> None:
        response = OffsetFetchResponse()
        if version < GROUPS_VERSION:
            wanted = None
            if request.topics is not None:
                wanted = [(t.name, n) for t in request.topics for n in t.partition_indexes]

            def one(answer: machine.FetchAnswer) -> None:
                response.error_code = answer.error
                response.topics = _old_topics(answer)
                self._site.outside.answer(caller, response)

            self._fetch(request.group_id, wanted, request.require_stable, one)
            return
        left = len(request.groups)

        def settled() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._site.outside.answer(caller, response)

        for group in request.groups:
            self._fetch_group(group, request.require_stable, response, settled)

    def _fetch_group(
        self,
        group: OffsetFetchRequestGroup,
        stable: bool,
        response: OffsetFetchResponse,
        settled: Callable[[], None],
    ) -> None:
        result = OffsetFetchResponseGroup(group_id=group.group_id)
        response.groups.append(result)
        wanted = None
        if group.topics is not None:
            wanted = [(t.name, n) for t in group.topics for n in t.partition_indexes]

        def then(answer: machine.FetchAnswer) -> None:
            result.error_code, result.topics = answer.error, _topics(answer)
            settled()

        self._fetch(group.group_id, wanted, stable, then)

    def _fetch(
        self,
        group: str,
        wanted: list[tuple[str, int]] | None,
        stable: bool,
        then: Callable[[machine.FetchAnswer], None],
    ) -> None:
        partitions = None if wanted is None else tuple(TopicPartition(*w) for w in wanted)

        def told(answer: machine.AnyAnswer) -> None:
            assert isinstance(answer, machine.FetchAnswer)
            then(answer)

        failed = self._request(group, machine.Fetch(told, group, partitions, stable))
        if failed:
            then(machine.FetchAnswer(failed))

    def check(self) -> None:
        for offsets in self.machines.values():
            offsets.check()


def _stored(replica: Replica) -> list[machine.OffsetRecord | machine.Marker]:
    found: list[machine.OffsetRecord | machine.Marker] = []
    where = str(replica.partition)
    for header, batch in stored_batches(replica.log):
        if header.is_control:
            control = first_control_record(batch, where)
            if control is not None and control.ends_transaction:
                commit = control.type == ControlType.COMMIT
                found.append(machine.Marker(header.producer_id, commit))
            continue
        producer_id = header.producer_id if header.is_transactional else machine.NO_PRODUCER_ID
        for record in few_records(batch, where):
            entry = from_bytes(record.key, record.value, where, producer_id)
            if entry is not None:
                found.append(entry)
    return found


def _errors_to(finish: Callable[[Errors], None]) -> Then:
    def then(answer: machine.AnyAnswer) -> None:
        assert isinstance(answer, machine.PartitionErrors)
        finish(dict(answer.errors))

    return then


def _by_topic(answer: machine.FetchAnswer) -> dict[str, list[machine.Fetched]]:
    topics: dict[str, list[machine.Fetched]] = {}
    for one in answer.offsets:
        topics.setdefault(one.partition.topic, []).append(one)
    return topics


def _topics(answer: machine.FetchAnswer) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name, partitions=[OffsetFetchResponsePartitions(*_fields(f)) for f in found]
        )
        for name, found in _by_topic(answer).items()
    ]


def _old_topics(answer: machine.FetchAnswer) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(name, [OffsetFetchResponsePartition(*_fields(f)) for f in found])
        for name, found in _by_topic(answer).items()
    ]


def _fields(found: machine.Fetched) -> Iterable:  # type: ignore[type-arg]
    """partition index, committed offset, leader epoch, metadata, error code"""
    number, kept = found.partition.partition, found.committed
    if kept is None:
        return number, -1, -1, "", int(found.error)
    return number, kept.offset, kept.leader_epoch, kept.metadata, int(found.error)
