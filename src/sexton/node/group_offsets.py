"""Committed offsets of groups: OffsetCommit and TxnOffsetCommit.

Versions 2 to 10 and 0 to 5. `machines.offsets` decides, one machine for each partition of
`__consumer_offsets` that this broker leads. Whether a member may commit for its group is the
membership's business and is asked of it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import coordinator_errors, group_log
from sexton.machines import offset_messages as machine
from sexton.machines.group_messages import GroupRecord
from sexton.machines.offset_log import from_bytes, to_bytes
from sexton.machines.offsets import OffsetConfig, Offsets
from sexton.node.coordinators import CONSUMER_OFFSETS, Coordinators, stored_batches
from sexton.node.groups import Groups
from sexton.node.outside import Caller
from sexton.node.replica import Replica
from sexton.node.site import Site
from sexton.node.verification import Question, Verification, Verify
from sexton.node.waking import Waking
from sexton.protocol.codec import EncodeError
from sexton.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from sexton.protocol.messages.write_txn_markers import WritableTxnMarker
from sexton.records.control import ControlType, first_control_record, marker_batch
from sexton.records.few import few_batch, few_records

ABORTABLE_FROM = 4  # the version of TxnOffsetCommit that knows TRANSACTION_ABORTABLE
ADDS_FROM = 5  # the version of TxnOffsetCommit with which a producer speaks TV2

Then = Callable[[machine.AnyAnswer], None]
Errors = dict[TopicPartition, KafkaError]
Gone = list[tuple[str, bytes]]  # topics and their ids

_NO_PARTITION = KafkaError.UNKNOWN_TOPIC_OR_PARTITION


class GroupOffsets:
    def __init__(
        self, site: Site, coordinators: Coordinators, groups: Groups, verify: Verify
    ) -> None:
        self._site = site
        self._coordinators = coordinators
        self._groups = groups
        self._verification = Verification(verify)
        self.machines: dict[TopicPartition, Offsets] = {}
        self._waking = Waking(site, lambda at: self._tell(at, machine.Tick()))
        self._topics: dict[str, str] = {}  # that there were, with their ids
        self._missed: dict[tuple[TopicPartition, int], Gone] = {}  # in a term, while it is loaded
        coordinators.keep(CONSUMER_OFFSETS, self._load, self._unload)
        groups.listen(self._tell)

    def start(self) -> None:
        interval_ms = self._site.config.offsets_retention_check_interval_ms
        self._site.outside.every(interval_ms, self._forget_empty_groups)

    def image_changed(self) -> None:
        """Offsets of a topic go with it, and do not pass to the next one of its name."""
        now = {name: topic.topic_id for name, topic in self._site.image.topics.items()}
        gone = [(n, bytes.fromhex(i)) for n, i in self._topics.items() if now.get(n) != i]
        self._topics = now
        if gone:
            for partition in list(self.machines):
                self._tell(partition, machine.TopicsDeleted(tuple(gone)))
            for partition, term in self._coordinators.terms(CONSUMER_OFFSETS).items():
                if partition not in self.machines:
                    self._missed.setdefault((partition, term), []).extend(gone)

    def _forget_empty_groups(self) -> None:
        for partition, offsets in list(self.machines.items()):
            self._groups.forget_empty(partition, offsets.groups())

    # ── taking over and handing over ──

    def _load(self, replica: Replica) -> None:
        config = OffsetConfig(
            offsets_retention_ms=self._site.config.offsets_retention_minutes * 60_000
        )
        offsets = self.machines[replica.partition] = Offsets(config)
        entries, records = _stored(replica)
        self._tell(replica.partition, machine.Load(entries))
        self._groups.load(replica.partition, records, sorted(offsets.groups()))
        self._forget_topics(replica)

    def _forget_topics(self, replica: Replica) -> None:
        """That were deleted while nobody kept these offsets.

        A topic that there is by the name of one that was deleted may have come since. Records of
        offsets with their own time to expire have no room for a topic's id: then only what was
        heard in this term tells that they are not its own.
        """
        partition, image = replica.partition, self._site.image
        ids = {name: bytes.fromhex(topic.topic_id) for name, topic in image.topics.items()}
        self._tell(partition, machine.TopicsExist(ids))
        missed = self._missed.pop((partition, replica.leader_epoch), [])
        self._missed = {key: gone for key, gone in self._missed.items() if key[0] != partition}
        if missed:
            self._tell(partition, machine.TopicsDeleted(tuple(missed)))

    def _unload(self, partition: TopicPartition) -> None:
        self._groups.unload(partition)
        if partition in self.machines:
            self._tell(partition, machine.Unload())
            del self.machines[partition]
            self._waking.forget(partition)

    def _tell(self, partition: TopicPartition, event: machine.Event) -> None:
        offsets = self.machines.get(partition)
        if offsets is None:
            return
        for effect in offsets.handle(event, self._site.now_ms):
            match effect:
                case machine.Append() | machine.AppendMarker():
                    self._append(partition, effect)
                case machine.Answer(caller, answer):
                    cast("Then", caller)(answer)
                case machine.WakeAt(at_ms):
                    self._waking.after(partition, at_ms - self._site.now_ms)

    def _append(
        self, partition: TopicPartition, effect: machine.Append | machine.AppendMarker
    ) -> None:
        offsets, token = self.machines[partition], effect.token

        def tell(event: machine.Event) -> None:
            if self.machines.get(partition) is offsets:
                self._tell(partition, event)

        try:
            replica = self._coordinators.replica(partition)
            done = replica.append(_batch(effect, self._site.now_ms), client=False)
        except Refused as refused:
            # At once: what is appended next would otherwise seem to have this before it in the log.
            tell(machine.AppendFailed(token, refused.error))
            return
        except EncodeError:  # which is a bug of ours; but the machine is not to believe in it
            tell(machine.AppendFailed(token, KafkaError.UNKNOWN_SERVER_ERROR))
            raise
        if isinstance(effect, machine.AppendMarker):
            self._verification.ended(partition, effect.producer_id)

        def replicated(error: KafkaError) -> None:
            if error == KafkaError.NONE:
                tell(machine.Appended(token))

        replica.acknowledge(done.last_offset, replicated)

    # ── calls ──

    def request(self, group: str, request: machine.Request) -> KafkaError:
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

    def commit(self, caller: Caller, request: OffsetCommitRequest, version: int) -> None:
        names = [topic.name or self._site.topic_name(topic.topic_id) for topic in request.topics]
        wanted: dict[TopicPartition, machine.CommittedOffset] = {}
        for name, topic in zip(names, request.topics, strict=True):
            for p in topic.partitions:
                at = TopicPartition(name, p.partition_index)
                if at in self._site.image.partitions:
                    wanted[at] = self._value(name, p)

        def finish(errors: Errors) -> None:
            response = OffsetCommitResponse()
            for name, topic in zip(names, request.topics, strict=True):
                unknown = _NO_PARTITION if name else KafkaError.UNKNOWN_TOPIC_ID
                found = [TopicPartition(name, p.partition_index) for p in topic.partitions]
                parts = [
                    OffsetCommitResponsePartition(at.partition, errors.get(at, unknown))
                    for at in found
                ]
                answered = OffsetCommitResponseTopic(topic.name, topic.topic_id, parts)
                response.topics.append(answered)
            self._site.outside.answer(caller, response)

        if request.topics and not wanted:
            finish({})
            return
        refused = self._may_commit(
            request.group_id, request.member_id, request.group_instance_id,
            request.generation_id_or_member_epoch, wanted, version, transactional=False,
        )  # fmt: skip
        commit = machine.Commit(
            _errors_to(finish), request.group_id, tuple(wanted.items()),
            retention_ms=request.retention_time_ms, refused=refused,
        )  # fmt: skip
        failed = self.request(request.group_id, commit)
        if failed:
            finish(dict.fromkeys(wanted, failed))

    def _value(
        self, topic: str, told: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
    ) -> machine.CommittedOffset:
        """With the topic's id, be it named by it or not: another may come by its name."""
        return machine.CommittedOffset(
            told.committed_offset, told.committed_metadata or "", told.committed_leader_epoch,
            topic_id=id_of(self._site, topic) or machine.NO_TOPIC_ID,
        )  # fmt: skip

    def _may_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        wanted: Iterable[TopicPartition],
        version: int,
        *,
        transactional: bool,
    ) -> KafkaError:
        try:
            _, groups = self._groups.at(group_id)
        except Refused:
            return KafkaError.NONE  # which will be said with the right error
        return groups.may_commit(
            group_id, member_id, instance_id, generation,
            [(id_of(self._site, at.topic), at.partition) for at in wanted],
            version=version, clock_ms=self._site.clock_ms, transactional=transactional,
        )  # fmt: skip

    def commit_in_transaction(
        self, caller: Caller, request: TxnOffsetCommitRequest, version: int
    ) -> None:
        wanted = {
            TopicPartition(topic.name, p.partition_index): self._value(topic.name, p)
            for topic in request.topics
            for p in topic.partitions
            if TopicPartition(topic.name, p.partition_index) in self._site.image.partitions
        }

        def finish(errors: Errors) -> None:
            response = TxnOffsetCommitResponse()
            for topic in request.topics:
                found = [TopicPartition(topic.name, p.partition_index) for p in topic.partitions]
                parts = [
                    TxnOffsetCommitResponsePartition(at.partition, errors.get(at, _NO_PARTITION))
                    for at in found
                ]
                response.topics.append(TxnOffsetCommitResponseTopic(topic.name, parts))
            self._site.outside.answer(caller, response)

        if request.topics and not wanted:
            finish({})
            return

        def verified(error: KafkaError) -> None:
            refused = coordinator_errors.to_client(error) or self._may_commit(
                request.group_id, request.member_id, request.group_instance_id,
                request.generation_id, wanted, version, transactional=True,
            )  # fmt: skip
            commit = machine.Commit(
                _errors_to(finish), request.group_id, tuple(wanted.items()), request.producer_id,
                request.producer_epoch, refused=refused,
            )  # fmt: skip
            failed = self.request(request.group_id, commit)
            if failed:
                finish(dict.fromkeys(wanted, failed))

        try:
            partition, _ = self._groups.at(request.group_id)
            replica = self._coordinators.replica(partition)
        except Refused as refused:
            finish(dict.fromkeys(wanted, refused.error))
            return
        question = Question(
            request.transactional_id, request.producer_id, request.producer_epoch,
            adds=version >= ADDS_FROM, knows_abortable=version >= ABORTABLE_FROM,
        )  # fmt: skip
        self._verification.ask(replica, question, verified)

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

        early_ms = self._site.config.lab_markers_acknowledged_before_offsets_ms
        if early_ms:
            written(KafkaError.NONE)
            written = _nobody_listens
        request = machine.WriteMarker(
            then, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch,
            marker.transaction_result, marker.transaction_version,
        )  # fmt: skip
        if early_ms:
            self._site.outside.after(early_ms, lambda: self._tell(partition, request))
        else:
            self._tell(partition, request)

    # ── deleting ──

    def delete_group(
        self, partition: TopicPartition, group_id: str, then: Callable[[KafkaError], None]
    ) -> None:
        def told(answer: machine.AnyAnswer) -> None:
            assert isinstance(answer, machine.DeleteGroupAnswer)
            then(answer.error)

        self._tell(partition, machine.DeleteGroup(told, group_id))

    def delete(
        self,
        partition: TopicPartition,
        group_id: str,
        doomed: list[TopicPartition],
        then: Callable[[Errors], None],
    ) -> None:
        self._tell(partition, machine.Delete(_errors_to(then), group_id, tuple(doomed)))

    def check(self) -> None:
        for offsets in self.machines.values():
            offsets.check()


def _batch(effect: machine.Append | machine.AppendMarker, now_ms: int) -> bytes:
    if isinstance(effect, machine.AppendMarker):
        return marker_batch(
            ControlType.COMMIT if effect.commit else ControlType.ABORT,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            coordinator_epoch=effect.coordinator_epoch,
            timestamp=now_ms,
        )
    return few_batch(
        [to_bytes(record) for record in effect.records],
        now_ms,
        producer_id=effect.producer_id,
        producer_epoch=effect.producer_epoch,
        transactional=effect.producer_id >= 0,
    )


def _nobody_listens(_: KafkaError) -> None:
    """The answer was given already."""


def id_of(site: Site, topic: str) -> bytes | None:
    found = site.image.topics.get(topic)
    return None if found is None else bytes.fromhex(found.topic_id)


Entries = list[machine.OffsetRecord | machine.Marker]


def _stored(replica: Replica) -> tuple[Entries, list[GroupRecord]]:
    found: Entries = []
    groups: list[GroupRecord] = []
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
            elif (about := group_log.from_bytes(record.key, record.value, where)) is not None:
                groups.append(about)
    return found, groups


def _errors_to(finish: Callable[[Errors], None]) -> Then:
    def then(answer: machine.AnyAnswer) -> None:
        assert isinstance(answer, machine.PartitionErrors)
        finish(dict(answer.errors))

    return then
