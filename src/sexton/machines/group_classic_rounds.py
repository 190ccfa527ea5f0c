"""How does a classic group get from one generation to the next?

In rounds. Whoever wants in, or wants another assignment, calls a new one:

    Empty ──▶ PreparingRebalance ──▶ CompletingRebalance ──▶ Stable
                 ▲  JoinGroup from all    SyncGroup from all,   │
                 │  members, or time is   the leader's with     │
                 │  up for the others     the assignment        │
                 └──── join, leave, death, other metadata ◀─────┘

JoinGroup waits until every member has sent one; then all hear of the new generation at once, and
the leader of all members. SyncGroup waits for the leader's, and gives each its part of it. The
group goes to the log when a generation is stable, and when it is empty: a new coordinator knows the
members, and a round that was under way is called again by their next heartbeats.

Every change of state is here; what members say that leads to it is in `group_classic`.
"""

from __future__ import annotations

from typing import Self

from sexton.base.kafka_errors import KafkaError
from sexton.machines.group_classic_members import CONSUMER, Member, Members, State
from sexton.machines.group_desk import Desk, Timer
from sexton.machines.group_messages import Caller, GroupRecord
from sexton.machines.offset_messages import GroupChanged
from sexton.protocol.coordinator.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from sexton.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from sexton.protocol.messages.sync_group import SyncGroupResponse

JOIN, SYNC, SESSION = "join", "sync", "session"  # what timers are for
UNKNOWN = ""  # the member id of one that has none yet


class Rounds:
    def __init__(self, desk: Desk, group_id: str) -> None:
        self._desk = desk
        self.group_id = group_id
        self.state = State.EMPTY
        self.state_ms = -1  # since when; -1 if that was not written down
        self.generation = 0
        self.protocol: str | None = None  # that the members have agreed on
        self.members = Members()
        self.subscribed: tuple[str, ...] | None = None
        self._initial = False  # in PREPARING: from EMPTY, and waiting a little for others
        self._delay_ms = self._remaining_ms = 0  # of that
        self._more_came = False
        self._told: GroupChanged | None = None

    @classmethod
    def from_value(cls, desk: Desk, group_id: str, value: GroupMetadataValue) -> Self:
        group = cls(desk, group_id)
        group.members = Members.from_value(value)
        group.state = State.STABLE if value.members else State.EMPTY
        group.state_ms = value.current_state_timestamp
        group.generation = value.generation
        group.protocol = value.protocol
        group.subscribed = group.members.subscribed(group.protocol)
        return group

    @property
    def is_simple(self) -> bool:
        """Nothing but a name under which somebody commits offsets."""
        return self.state is State.EMPTY and self.members.protocol_type is None

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    # ── joining, and what is told at its end ──

    def _rebalance_or_complete(self) -> None:
        if self.state is not State.PREPARING:
            self._prepare()
        elif not self._initial and self.members.all_joined:
            self._complete()

    def _prepare(self) -> None:
        if self.state is State.COMPLETING:
            for member in self.members.by_id.values():
                member.assignment = b""
            self._answer_syncs(KafkaError.REBALANCE_IN_PROGRESS)
        self.members.unsynced.clear()
        self._desk.cancel(self._timer(SYNC))
        self._initial = self.state is State.EMPTY
        self._enter(State.PREPARING)
        if self._initial:
            self._more_came = False
            self._delay_ms = self._desk.config.group_initial_rebalance_delay_ms
            self._remaining_ms = max(self.members.rebalance_timeout_ms - self._delay_ms, 0)
            self._desk.by(self._timer(JOIN), self._delay_ms)
        elif self.members.all_joined:
            self._complete()
        else:
            self._desk.by(self._timer(JOIN), self.members.rebalance_timeout_ms)

    def _join_time_is_up(self) -> None:
        if self.state is not State.PREPARING:
            return
        if self._initial and self._more_came and self._remaining_ms:
            self._more_came = False
            waited_ms = self._delay_ms
            self._delay_ms = min(
                self._desk.config.group_initial_rebalance_delay_ms, self._remaining_ms
            )
            self._remaining_ms = max(self._remaining_ms - waited_ms, 0)
            self._desk.by(self._timer(JOIN), self._delay_ms)
        else:
            self._complete()

    def _complete(self) -> None:
        """The next generation begins, of those who have joined and of the static ones."""
        self._desk.cancel(self._timer(JOIN))
        for member in list(self.members.by_id.values()):
            if member.joining is None and member.instance_id is None:
                self._remove(member.member_id)
        if not self.members.elect_leader() and len(self.members):
            # Nobody has joined: wait until sessions end, or somebody does.
            self._desk.by(self._timer(JOIN), self.members.rebalance_timeout_ms)
            return
        self.generation += 1
        self._initial = False
        self.members.unsynced.clear()
        if not len(self.members):
            self.protocol = None
            self.subscribed = self.members.subscribed(None)
            self._enter(State.EMPTY)
            self._desk.append([self.record({})], lambda _error: None)
            return
        self.protocol = self.members.select_protocol()
        self.subscribed = self.members.subscribed(self.protocol)
        self._enter(State.COMPLETING)
        for member in self.members.by_id.values():
            caller, member.joining = member.joining, None
            if caller is not None:
                leads = member.member_id == self.members.leader
                self._desk.answer(caller, self._joined(member, leads))
            self._keep_session(member)
            member.is_new = False
            self.members.unsynced[member.member_id] = None
        self._desk.by(self._timer(SYNC), self.members.rebalance_timeout_ms)

    def _joined(self, member: Member, with_members: bool) -> JoinGroupResponse:
        members = [
            JoinGroupResponseMember(m.member_id, m.instance_id, m.metadata(self.protocol))
            for m in self.members.by_id.values()
        ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.members.protocol_type,
            protocol_name=self.protocol,
            leader=self.members.leader or "",
            member_id=member.member_id,
            members=members if with_members else [],
        )

    def _enter(self, state: State) -> None:
        self.state, self.state_ms = state, self._desk.now_ms
        self.tell_offsets()

    # ── assigning ──

    def _assign(self, assignments: dict[str, bytes]) -> None:
        generation = self.generation

        def written(error: KafkaError) -> None:
            if self.state is not State.COMPLETING or self.generation != generation:
                return  # another round has begun
            for member in self.members.by_id.values():
                member.assignment = b"" if error else assignments.get(member.member_id, b"")
            self._answer_syncs(error)
            if error:
                self._prepare()
            else:
                self._enter(State.STABLE)

        self._desk.append([self.record(assignments)], written)

    def _answer_syncs(self, error: KafkaError) -> None:
        for member in self.members.by_id.values():
            caller, member.syncing = member.syncing, None
            if caller is not None:
                self._answer_sync(caller, member, error)
                self._keep_session(member)

    def _answer_sync(self, caller: Caller, member: Member, error: KafkaError) -> None:
        response = SyncGroupResponse(error_code=error, assignment=member.assignment)
        if not error:
            response.protocol_type = self.members.protocol_type
            response.protocol_name = self.protocol
        self._desk.answer(caller, response)

    def _sync_time_is_up(self) -> None:
        if self.state in (State.COMPLETING, State.STABLE) and self.members.unsynced:
            for member_id in list(self.members.unsynced):
                self._remove(member_id)
            self._prepare()

    # ── time, and members that go ──

    def time_is_up(self, what: str, member_id: str) -> None:
        match what:
            case "join":
                self._join_time_is_up()
            case "sync":
                self._sync_time_is_up()
            case "session":
                self._session_is_over(member_id)

    def _session_is_over(self, member_id: str) -> None:
        member = self.members.by_id.get(member_id)
        if member is not None and not member.is_new and (
            member.joining is not None or member.syncing is not None
        ):  # fmt: skip
            return  # it waits for us; its session begins anew when it is answered
        self._remove(member_id)
        if member is not None and self.state in (State.STABLE, State.COMPLETING):
            self._prepare()
        elif self.state is State.PREPARING and not self._initial and self.members.all_joined:
            self._complete()

    def _remove(self, member_id: str) -> None:
        member = self.members.by_id.get(member_id)
        gone = KafkaError.UNKNOWN_MEMBER_ID
        if member is not None and member.joining is not None:
            self._desk.answer(member.joining, refused_join(gone, UNKNOWN))
        if member is not None and member.syncing is not None:
            self._desk.answer(member.syncing, SyncGroupResponse(error_code=gone))
        self.members.remove(member_id)
        self._desk.cancel(self._timer(SESSION, member_id))

    def keep_sessions(self) -> None:
        """After a change of coordinators everybody has time to notice it."""
        for member in self.members.by_id.values():
            self._keep_session(member)
        if len(self.members) > self._desk.config.group_max_size:
            self._prepare()

    def _keep_session(self, member: Member) -> None:
        self._desk.by(self._timer(SESSION, member.member_id), member.session_timeout_ms)

    def _timer(self, what: str, member_id: str = "") -> Timer:
        return (self.group_id, what, member_id)

    def forget_timers(self) -> None:
        """Of a group that goes; it is empty, but for ids that it gave out."""
        for member_id in self.members.promised:
            self._desk.cancel(self._timer(SESSION, member_id))

    # ── what others know of it ──

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed is None:
            return self.members.protocol_type == CONSUMER
        return topic in self.subscribed

    def tell_offsets(self) -> None:
        """May offsets expire? Those of topics that nobody subscribes to, if that is known."""
        if self.is_simple:
            change = GroupChanged(self.group_id)
        elif self.state is State.EMPTY:
            change = GroupChanged(self.group_id, (), self.state_ms)
        elif self.state is State.STABLE:
            change = GroupChanged(self.group_id, self.subscribed)
        else:
            change = GroupChanged(self.group_id, None)
        if change != self._told:
            self._told = change
            self._desk.changed(change)

    def record(self, assignments: dict[str, bytes]) -> GroupRecord:
        return self.members.to_record(
            self.group_id, self.generation, self.protocol, self.state_ms, assignments
        )

    def tombstones(self) -> list[GroupRecord]:
        return [GroupRecord(GroupMetadataKey(self.group_id))]

    def unload(self) -> None:
        error = KafkaError.NOT_COORDINATOR
        for member in self.members.by_id.values():
            if member.joining is not None:
                self._desk.answer(member.joining, refused_join(error, member.member_id))
            if member.syncing is not None:
                self._desk.answer(member.syncing, SyncGroupResponse(error_code=error))

    def check(self) -> None:
        self.members.check()
        if self.state is State.EMPTY:
            assert not len(self.members) and self.protocol is None
        else:
            assert len(self.members) or self.members.promised or self.state is State.PREPARING
        if self.state is State.STABLE:
            assert self.protocol in self.members.known_to_all()
        for member in self.members.by_id.values():
            assert member.syncing is None or self.state is State.COMPLETING
            assert (self.group_id, SESSION, member.member_id) in self._desk.deadlines or (
                member.joining is not None or member.syncing is not None
            )
        if self.state is State.PREPARING:
            assert self._timer(JOIN) in self._desk.deadlines


def refused_join(error: KafkaError, member_id: str = UNKNOWN) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)
