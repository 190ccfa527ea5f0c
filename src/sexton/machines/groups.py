"""Who is in which group, and who may speak for it?

The coordinator of all groups of one partition of `__consumer_offsets`, as in Apache Kafka 4.3:

    JoinGroup, SyncGroup, Heartbeat, LeaveGroup ──▶ ClassicGroup  ┐
    ConsumerGroupHeartbeat ───────────────────────▶ ConsumerGroup ┘──▶ Append, Answer, WakeAt

A group is of the kind that its members speak. An empty one becomes the other kind when such a
member comes; of a group with members Kafka makes the other kind, too, while they are in it, which
we do not: whoever speaks the other protocol is refused until they have left.

Offsets are kept by `offsets`, which asks nobody: who may commit is asked here first. A name under
which somebody commits without being a member of anything is an empty group as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import assert_never

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines import group_views as views
from sexton.machines.group_classic import ClassicGroup, leaving_members, left
from sexton.machines.group_classic_members import CONSUMER, Members
from sexton.machines.group_classic_rounds import refused_join
from sexton.machines.group_consumer import ConsumerGroup, group_of, leave_refusal
from sexton.machines.group_consumer_requests import check
from sexton.machines.group_desk import Desk
from sexton.machines.group_messages import (
    Answer,
    Appended,
    AppendFailed,
    Asked,
    DeleteGroup,
    Effect,
    Event,
    ForgetEmpty,
    GroupConfig,
    GroupRecord,
    Load,
    MemberRequest,
    MemberResponse,
    Tick,
    TopicId,
    TopicsAre,
    Unload,
    WakeAt,
)
from sexton.machines.offset_messages import GroupChanged
from sexton.protocol.coordinator.consumer_offsets import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
)
from sexton.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumers
from sexton.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from sexton.protocol.messages.describe_groups import DescribedGroup
from sexton.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sexton.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from sexton.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from sexton.protocol.messages.leave_group import MemberResponse as Left
from sexton.protocol.messages.list_groups import ListedGroup
from sexton.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_FROM = 5  # the version of SyncGroup that names the protocol
NOT_FOUND_FROM = 9  # the version of OffsetCommit that knows of groups that are not there


class Groups:
    def __init__(self, config: GroupConfig, random: Random) -> None:
        self._desk = Desk(config, random)
        self.leading = False
        self.groups: dict[str, ClassicGroup | ConsumerGroup] = {}

    def handle(self, event: Event, now_ms: int, clock_ms: int) -> list[Effect]:
        desk = self._desk
        desk.now_ms, desk.clock_ms = now_ms, clock_ms
        if isinstance(event, Tick):
            desk.alarms.woken()
        self._handle(event)
        if (wake_ms := desk.alarms.new_wake_ms()) is not None:
            desk.effects.append(WakeAt(wake_ms))
        effects, desk.effects = desk.effects, []
        return effects

    def _handle(self, event: Event) -> None:
        match event:
            case Asked():
                self._asked(event)
            case DeleteGroup():
                self._delete(event)
            case ForgetEmpty(with_offsets):
                empty = [g for g in self.groups.values() if g.is_empty]
                for group in empty:
                    if group.group_id not in with_offsets:
                        self._bury(group)
            case TopicsAre(topics):
                if topics is not self._desk.topics and topics != self._desk.topics:
                    self._desk.topics = topics
                    self._desk.topics_version += 1
            case Appended(token):
                self._desk.appended(token)
            case AppendFailed(token, error):
                self._desk.append_failed(token, error)
            case Load(records, with_offsets):
                self._load(records, with_offsets)
            case Unload():
                self._unload()
            case Tick():
                for group_id, what, member_id in self._desk.due():
                    if group_id in self.groups:
                        self.groups[group_id].time_is_up(what, member_id)
            case _:
                assert_never(event)

    # ── what members ask ──

    def _asked(self, asked: Asked) -> None:
        request = asked.request
        if not self.leading:
            refused = refusal(request, KafkaError.NOT_COORDINATOR, asked.version)
            self._desk.answer(asked.caller, refused)
            return
        try:
            self._dispatch(asked, request)
        except Refused as no:
            response = refusal(request, no.error, asked.version)
            if isinstance(response, ConsumerGroupHeartbeatResponse):
                response.error_message = no.why
            elif isinstance(response, JoinGroupResponse):
                assert isinstance(request, JoinGroupRequest)
                response.member_id = request.member_id
            self._desk.answer(asked.caller, response)

    def _dispatch(self, asked: Asked, request: MemberRequest) -> None:
        group_id = request.group_id
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            check(request, asked.version, self._desk.config.group_consumer_assignors)
            self._consumer_heartbeat(asked, request)
            return
        group = self.groups.get(group_id)
        match request, group:
            case SyncGroupRequest(protocol_type=kind, protocol_name=name), _ if (
                asked.version >= PROTOCOL_FROM and (kind is None or name is None)
            ):
                why = "who syncs says with which protocol"
                raise Refused(KafkaError.INCONSISTENT_GROUP_PROTOCOL, why)
            case _ if not group_id:
                raise Refused(KafkaError.INVALID_GROUP_ID, "a group has a name")
            case JoinGroupRequest(), _:
                self._join(asked, request)
            case LeaveGroupRequest(), ClassicGroup():
                group.leave(asked, request)
            case LeaveGroupRequest(), ConsumerGroup():
                leaving = leaving_members(request, asked.version)
                errors = group.remove(leaving)
                told = zip(leaving, errors, strict=True)
                answers = [Left(w.member_id, w.group_instance_id, error) for w, error in told]
                self._desk.answer_safely(asked.caller, left(answers, asked.version), leave_refusal)
            case SyncGroupRequest(), ClassicGroup() if not group.is_empty:
                group.sync(asked, request)
            case HeartbeatRequest(), ClassicGroup():
                group.heartbeat(asked, request)
            case _:
                raise Refused(KafkaError.UNKNOWN_MEMBER_ID, f"group {group_id} has no such member")

    def _join(self, asked: Asked, request: JoinGroupRequest) -> None:
        config = self._desk.config
        first, last = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not first <= request.session_timeout_ms <= last:
            why = f"a session takes {first} to {last} ms"
            raise Refused(KafkaError.INVALID_SESSION_TIMEOUT, why)
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            group.join(asked, request)
            return
        if group is not None and not group.is_empty:
            why = f"the members of {request.group_id} speak the consumer protocol"
            raise Refused(KafkaError.INCONSISTENT_GROUP_PROTOCOL, why)
        if request.member_id:
            why = f"there is no group {request.group_id}"
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID, why)
        if group is not None:
            self._bury(group)
        group = self.groups[request.group_id] = ClassicGroup(self._desk, request.group_id)
        written = self._desk.written
        group.join(asked, request)
        if self._desk.written == written:
            empty = Members().to_record(group.group_id, 0, None, group.state_ms, {})
            self._desk.append([empty], lambda _error: None)

    def _consumer_heartbeat(self, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> None:
        group_id, joins = request.group_id, request.member_epoch == 0
        leaves = request.member_epoch < 0
        group = self.groups.get(group_id)
        before: list[GroupRecord] = []
        missing: str | None = None
        if group is None and not joins:
            missing = f"{'Group' if leaves else 'Consumer group'} {group_id} not found."
        elif isinstance(group, ClassicGroup) and not joins:
            missing = f"Group {group_id} is not a consumer group."
        elif isinstance(group, ClassicGroup) and not group.is_empty:
            missing = (
                f"Cannot upgrade classic group {group_id} to consumer group because online "
                "upgrade is disabled."
            )
        if missing is not None:
            raise Refused(KafkaError.GROUP_ID_NOT_FOUND, missing)
        if isinstance(group, ConsumerGroup):
            if leaves:
                group.leave(asked, request)
            else:
                group.heartbeat(asked, request, before)
            return
        if group is not None:
            before = group.tombstones()
        new = ConsumerGroup(self._desk, group_id)
        new.heartbeat(asked, request, before)
        if group is not None:
            group.forget_timers()
        self.groups[group_id] = new

    # ── what operators ask ──

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        return views.described(group_id, self.groups.get(group_id), version)

    def describe_consumers(self, group_id: str) -> DescribedConsumers:
        assignor = self._desk.config.group_consumer_assignors[0]
        group = self.groups.get(group_id)
        return views.consumer_described(group_id, group, assignor, self._desk.topics)

    def list(self) -> list[ListedGroup]:
        return [views.listed(group) for group in self.groups.values()]

    def may_delete(self, group_id: str) -> KafkaError:
        group = self.groups.get(group_id)
        if not self.leading:
            return KafkaError.NOT_COORDINATOR
        if group is None:
            return KafkaError.GROUP_ID_NOT_FOUND
        return KafkaError.NONE if group.is_empty else KafkaError.NON_EMPTY_GROUP

    def _delete(self, event: DeleteGroup) -> None:
        error = self.may_delete(event.group)
        if not error:
            self._bury(self.groups[event.group])
        self._desk.answer_safely(event.caller, error, lambda failed: failed)

    def _bury(self, group: ClassicGroup | ConsumerGroup) -> None:
        group.forget_timers()
        del self.groups[group.group_id]
        self._desk.changed(GroupChanged(group.group_id))

        def written(error: KafkaError) -> None:
            if error and self.leading:
                self.groups.setdefault(group.group_id, group)

        self._desk.append(group.tombstones(), written)

    # ── what is asked about offsets ──

    def may_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        partitions: Iterable[tuple[TopicId | None, int]] = (),
        *,
        version: int,
        clock_ms: int,
        transactional: bool = False,
    ) -> KafkaError:
        """A commit to a group that is not there makes it. A member that commits is alive."""
        self._desk.clock_ms = clock_ms
        group = self.groups.get(group_id)
        if group is None:
            if generation < 0:
                self.groups[group_id] = ClassicGroup(self._desk, group_id)
                return KafkaError.NONE
            if version >= NOT_FOUND_FROM and not transactional:
                return KafkaError.GROUP_ID_NOT_FOUND
            return KafkaError.ILLEGAL_GENERATION
        if isinstance(group, ClassicGroup):
            return group.may_commit(member_id, instance_id, generation, transactional)
        error = group.may_commit(
            member_id, instance_id, generation, transactional, version, partitions
        )
        if transactional and error is KafkaError.STALE_MEMBER_EPOCH:
            return KafkaError.ILLEGAL_GENERATION
        return error

    def may_fetch(self, group_id: str, member_id: str | None, epoch: int) -> KafkaError:
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group.may_fetch(member_id, epoch)
        return KafkaError.NONE

    def may_delete_offsets(self, group_id: str) -> KafkaError:
        group = self.groups.get(group_id)
        if group is None:
            return KafkaError.GROUP_ID_NOT_FOUND
        if isinstance(group, ConsumerGroup) or group.is_empty:
            return KafkaError.NONE
        consumers = group.members.protocol_type == CONSUMER
        return KafkaError.NONE if consumers else KafkaError.NON_EMPTY_GROUP

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        group = self.groups.get(group_id)
        return group is not None and group.is_subscribed_to(topic)

    # ── leadership ──

    def _load(self, records: Iterable[GroupRecord], with_offsets: Iterable[str]) -> None:
        self._unload()
        self.leading = True
        for record in records:
            self._fold(record)
        for group_id in with_offsets:
            if group_id not in self.groups:
                self.groups[group_id] = ClassicGroup(self._desk, group_id)
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                group.loaded()
            else:
                group.keep_sessions()
                group.tell_offsets()

    def _fold(self, record: GroupRecord) -> None:
        group_id, key, value = group_of(record), record.key, record.value
        group = self.groups.get(group_id)
        if isinstance(key, GroupMetadataKey):
            if isinstance(value, GroupMetadataValue):
                self.groups[group_id] = ClassicGroup.from_value(self._desk, group_id, value)
            elif isinstance(group, ClassicGroup):
                del self.groups[group_id]
            return
        if value is None and not isinstance(group, ConsumerGroup):
            return  # of a group that went long ago
        if not isinstance(group, ConsumerGroup):
            group = self.groups[group_id] = ConsumerGroup(self._desk, group_id)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del self.groups[group_id]
        else:
            group.durable.apply(record)

    def _unload(self) -> None:
        self._desk.fail_all(KafkaError.NOT_COORDINATOR)
        self.leading = False
        for group in self.groups.values():
            group.unload()
        answers = [effect for effect in self._desk.effects if isinstance(effect, Answer)]
        self._desk.clear()
        self._desk.effects += answers
        self.groups = {}

    # ── what must be true ──

    def check(self) -> None:
        self._desk.check()
        assert self.leading or not self.groups
        for group_id, group in self.groups.items():
            assert group.group_id == group_id
            group.check()


def refusal(request: MemberRequest, error: KafkaError, version: int) -> MemberResponse:
    match request:
        case JoinGroupRequest():
            return refused_join(error)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=error)
        case HeartbeatRequest():
            if error is KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                error = KafkaError.NONE  # it would go and look for another one
            return HeartbeatResponse(error_code=error)
        case LeaveGroupRequest():
            if error is KafkaError.UNKNOWN_MEMBER_ID:
                leaving = leaving_members(request, version)
                answers = [Left(w.member_id, w.group_instance_id, error) for w in leaving]
                return left(answers, version)
            return LeaveGroupResponse(error_code=error)
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error_code=error)
        case _:
            assert_never(request)
