"""What do the members of a classic group say, and what does it lead to?

    JoinGroup   wants in, or another assignment: a round is called       (`group_classic_rounds`)
    SyncGroup   waits for its part; the leader's brings all parts
    Heartbeat   is alive, and hears whether a round is under way          LeaveGroup   goes

What a member says carries its generation, so one that slept through a round is told so. A member
without an id is given one and asked to join again with it (KIP-394), so that a lost answer leaves
no ghost to wait for. A static member (KIP-345) that comes back takes its old place.

As in Apache Kafka 4.3; the server knows nothing of eager or cooperative, which are the members'
own affair.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.machines.group_classic_members import Member, Protocols, State
from sexton.machines.group_classic_rounds import SESSION, SYNC, UNKNOWN, Rounds, refused_join
from sexton.machines.group_messages import Asked
from sexton.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sexton.protocol.messages.join_group import JoinGroupRequest
from sexton.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from sexton.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_REQUIRED_FROM = 4  # the version of JoinGroup
SKIP_ASSIGNMENT_FROM = 9
MEMBERS_FROM = 3  # the version of LeaveGroup that names several


class ClassicGroup(Rounds):
    # ── JoinGroup ──

    def join(self, asked: Asked, request: JoinGroupRequest) -> None:
        member_id = request.member_id
        if not self._has_room_for(member_id):
            self._remove(member_id)
            return self._refuse_join(asked, KafkaError.GROUP_MAX_SIZE_REACHED, UNKNOWN)
        if not self._knows_protocols_of(request):
            return self._refuse_join(asked, KafkaError.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if member_id == UNKNOWN:
            return self._join_anew(asked, request)
        if member_id in self.members.promised and request.group_instance_id is None:
            return self._add(asked, request, member_id)
        error = self.members.refusal(member_id, request.group_instance_id)
        if error:
            return self._refuse_join(asked, error, member_id)
        return self._join_again(asked, request, self.members.by_id[member_id])

    def _has_room_for(self, member_id: str) -> bool:
        limit = self._desk.config.group_max_size
        member = self.members.by_id.get(member_id)
        match self.state:
            case State.PREPARING:  # counts who has joined: the last of too many will have to go
                waits = member is not None and member.joining is not None
                return waits or self.members.joining < limit
            case State.COMPLETING | State.STABLE:
                return member is not None or len(self.members) < limit
            case _:
                return True

    def _knows_protocols_of(self, request: JoinGroupRequest) -> bool:
        names = [protocol.name for protocol in request.protocols]
        if self.state is State.EMPTY:
            return bool(request.protocol_type and names)
        known = self.members.known_to_all()
        same_type = self.members.protocol_type == request.protocol_type
        return same_type and any(name in known for name in names)

    def _refuse_join(self, asked: Asked, error: KafkaError, member_id: str) -> None:
        self._desk.answer(asked.caller, refused_join(error, member_id))

    def _join_anew(self, asked: Asked, request: JoinGroupRequest) -> None:
        prefix = request.group_instance_id or asked.client.client_id
        member_id = f"{prefix}-{self._desk.new_id()}"
        if request.group_instance_id is not None:
            old = self.members.static.get(request.group_instance_id)
            if old is not None:
                return self._replace(asked, request, self.members.by_id[old], member_id)
        elif asked.version >= MEMBER_ID_REQUIRED_FROM:
            self.members.promised[member_id] = None
            self._desk.by(self._timer(SESSION, member_id), request.session_timeout_ms)
            return self._refuse_join(asked, KafkaError.MEMBER_ID_REQUIRED, member_id)
        return self._add(asked, request, member_id)

    def _add(self, asked: Asked, request: JoinGroupRequest, member_id: str) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            asked.client.client_id,
            asked.client.host,
            _rebalance_timeout_ms(request, asked.version),
            request.session_timeout_ms,
            _protocols(request),
            joining=asked.caller,
            is_new=True,
        )
        if self.state is State.PREPARING and self._initial:
            self._more_came = True
        self.members.add(member, request.protocol_type)
        # It has no id yet, or has just heard of it, and is not expected to send heartbeats while
        # it waits. If it gave up and came again, this one must go some time.
        wait_ms = self._desk.config.group_new_member_join_timeout_ms
        self._desk.by(self._timer(SESSION, member_id), wait_ms)
        self._rebalance_or_complete()

    def _join_again(self, asked: Asked, request: JoinGroupRequest, member: Member) -> None:
        same = member.protocols == _protocols(request)
        is_leader = member.member_id == self.members.leader
        # A leader calls for a round when it sees what we do not, as new partitions.
        told = self.state is State.COMPLETING or (self.state is State.STABLE and not is_leader)
        if same and told:
            response = self._joined(member, is_leader and self.state is State.COMPLETING)
            self._desk.answer(asked.caller, response)
            return
        self._update(asked, request, member)
        self._rebalance_or_complete()

    def _update(self, asked: Asked, request: JoinGroupRequest, member: Member) -> None:
        member.protocols = _protocols(request)
        member.rebalance_timeout_ms = _rebalance_timeout_ms(request, asked.version)
        member.session_timeout_ms = request.session_timeout_ms
        if member.joining is not None:  # it asks again; Kafka lets the first one hang
            again = KafkaError.REBALANCE_IN_PROGRESS
            self._desk.answer(member.joining, refused_join(again, member.member_id))
        member.joining = asked.caller

    # ── a static member that comes back ──

    def _replace(
        self, asked: Asked, request: JoinGroupRequest, member: Member, member_id: str
    ) -> None:
        """A static member is back; who used its place until now is fenced."""
        old_id, leader = member.member_id, self.members.leader
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        fenced = KafkaError.FENCED_INSTANCE_ID
        if member.joining is not None:
            self._desk.answer(member.joining, refused_join(fenced, old_id))
        if member.syncing is not None:
            self._desk.answer(member.syncing, SyncGroupResponse(error_code=fenced))
        member.joining = member.syncing = None
        self._desk.cancel(self._timer(SESSION, old_id))
        self.members.unsynced.pop(old_id, None)
        self.members.rename(member, member_id)
        self._keep_session(member)
        self._update(asked, request, member)
        if self.state is State.COMPLETING:
            self._prepare()  # the leader may be assigning to the old id just now
        elif self.state is not State.STABLE or self.members.select_protocol() != self.protocol:
            self._rebalance_or_complete()
        else:
            self._write_replaced(asked, member, old_id, leader, before)

    def _write_replaced(
        self,
        asked: Asked,
        member: Member,
        old_id: str,
        leader: str | None,
        before: tuple[Protocols, int, int],
    ) -> None:
        """No round is needed; it is answered when the log knows it by its new id."""
        member_id = member.member_id

        def written(error: KafkaError) -> None:
            caller, member.joining = member.joining, None
            if caller is None or self.members.by_id.get(member_id) is not member:
                return  # somebody else took the place, or a round has begun
            self._keep_session(member)  # which may have ended while it waited
            if error:
                member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
                self.members.rename(member, old_id)
                self._desk.cancel(self._timer(SESSION, member_id))
                self._keep_session(member)
                response = self._joined(member, False)
                response.error_code, response.member_id = error, UNKNOWN
                response.leader = leader or ""
            elif asked.version >= SKIP_ASSIGNMENT_FROM:
                response = self._joined(member, member_id == self.members.leader)
                response.skip_assignment = member_id == self.members.leader
            else:  # an older client that heard it leads would assign anew
                response = self._joined(member, False)
                response.leader = leader or ""
            self._desk.answer(caller, response)

        assignments = {m.member_id: m.assignment for m in self.members.by_id.values()}
        self._desk.append([self.record(assignments)], written)

    # ── SyncGroup, Heartbeat and LeaveGroup ──

    def sync(self, asked: Asked, request: SyncGroupRequest) -> None:
        error = self.members.refusal(request.member_id, request.group_instance_id)
        if not error and request.generation_id != self.generation:
            error = KafkaError.ILLEGAL_GENERATION
        elif not error and (
            _differ(request.protocol_type, self.members.protocol_type)
            or _differ(request.protocol_name, self.protocol)
        ):
            error = KafkaError.INCONSISTENT_GROUP_PROTOCOL
        elif not error and self.state is State.PREPARING:
            error = KafkaError.REBALANCE_IN_PROGRESS
        if error:
            self._desk.answer(asked.caller, SyncGroupResponse(error_code=error))
            return
        member = self.members.by_id[request.member_id]
        self.members.unsynced.pop(member.member_id, None)
        if not self.members.unsynced:
            self._desk.cancel(self._timer(SYNC))
        if self.state is State.STABLE:
            self._answer_sync(asked.caller, member, KafkaError.NONE)
            return
        if member.syncing is not None:
            again = KafkaError.REBALANCE_IN_PROGRESS
            self._desk.answer(member.syncing, SyncGroupResponse(error_code=again))
        member.syncing = asked.caller
        if member.member_id == self.members.leader:
            self._assign({one.member_id: bytes(one.assignment) for one in request.assignments})

    def heartbeat(self, asked: Asked, request: HeartbeatRequest) -> None:
        error = self.members.refusal(request.member_id, request.group_instance_id)
        if not error and request.generation_id != self.generation:
            error = KafkaError.ILLEGAL_GENERATION
        elif not error:
            self._keep_session(self.members.by_id[request.member_id])
            if self.state is State.PREPARING:
                error = KafkaError.REBALANCE_IN_PROGRESS
        self._desk.answer(asked.caller, HeartbeatResponse(error_code=error))

    def leave(self, asked: Asked, request: LeaveGroupRequest) -> None:
        leaving = leaving_members(request, asked.version)
        answers = [
            MemberResponse(one.member_id, one.group_instance_id, self._let_go(one))
            for one in leaving
        ]
        if not all(answer.error_code for answer in answers):
            if self.state in (State.STABLE, State.COMPLETING):
                self._prepare()
            elif self.state is State.PREPARING and not self._initial and self.members.all_joined:
                self._complete()
        response = left(answers, asked.version)
        self._desk.answer_safely(
            asked.caller, response, lambda error: LeaveGroupResponse(error_code=error)
        )

    def _let_go(self, who: MemberIdentity) -> KafkaError:
        member_id = who.member_id
        if member_id == UNKNOWN:  # an operator removes static members by their instance id
            known = self.members.static.get(who.group_instance_id or "")
            if known is None:
                return KafkaError.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in self.members.promised:
            self._remove(member_id)
            return KafkaError.NONE
        elif error := self.members.refusal(member_id, who.group_instance_id):
            return error
        self._remove(member_id)
        return KafkaError.NONE

    # ── OffsetCommit ──

    def may_commit(
        self, member_id: str, instance_id: str | None, generation: int, transactional: bool
    ) -> KafkaError:
        if generation < 0 and self.state is State.EMPTY:
            return KafkaError.NONE  # a consumer that assigns its partitions itself, or an operator
        if generation >= 0 or member_id != UNKNOWN or instance_id is not None:
            if error := self.members.refusal(member_id, instance_id):
                return error
            if generation != self.generation:
                return KafkaError.ILLEGAL_GENERATION
        elif not transactional:
            return KafkaError.UNKNOWN_MEMBER_ID
        if transactional:
            return KafkaError.NONE
        if self.state is State.COMPLETING:
            return KafkaError.REBALANCE_IN_PROGRESS
        self._keep_session(self.members.by_id[member_id])
        return KafkaError.NONE


def leaving_members(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    if version < MEMBERS_FROM or (not request.members and request.member_id):
        return [MemberIdentity(request.member_id)]
    return request.members


def left(answers: list[MemberResponse], version: int) -> LeaveGroupResponse:
    if version < MEMBERS_FROM:
        return LeaveGroupResponse(error_code=answers[0].error_code)
    return LeaveGroupResponse(members=answers)


def _rebalance_timeout_ms(request: JoinGroupRequest, version: int) -> int:
    return request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms


def _protocols(request: JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def _differ(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known
