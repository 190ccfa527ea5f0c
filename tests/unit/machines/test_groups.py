"""What becomes of groups and their members, told as text: see testdata/group_*.txt.

A member goes by the name that the story gives it, whatever id the coordinator does; in a consumer
group the name is its id. Records are replicated at once, unless a story holds them back. An
assignment of the classic protocol is any text; `orders:0,1` is one of the consumer protocol.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from sexton.base.kafka_errors import KafkaError
from sexton.machines import group_log
from sexton.machines.group_assignors import Partitions
from sexton.machines.group_classic import ClassicGroup
from sexton.machines.group_consumer_state import LEAVING_STATIC, GroupState, Held, MemberState
from sexton.machines.group_messages import (
    Answer,
    Append,
    Appended,
    AppendFailed,
    Asked,
    Client,
    DeleteGroup,
    Event,
    ForgetEmpty,
    GroupConfig,
    GroupRecord,
    Load,
    MemberRequest,
    MemberResponse,
    Tick,
    Topic,
    TopicsAre,
    Unload,
    WakeAt,
)
from sexton.machines.groups import Groups
from sexton.machines.offset_messages import GroupChanged
from sexton.protocol.coordinator import consumer_offsets as stored
from sexton.protocol.coordinator.consumer_protocol import ConsumerProtocolSubscription
from sexton.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from sexton.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sexton.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from sexton.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from sexton.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from sexton.protocol.versioned import encode_versioned
from tests.datadriven import Case, datadriven, run_file
from tests.unit.machines.test_transactions import milliseconds

GROUP = "readers"
MEMBER_STATES = ("stable", "unrevoked", "unreleased")


class Story:
    def __init__(self) -> None:
        self.groups = Groups(GroupConfig(), Random(1))
        self.log: list[GroupRecord] = []  # what is replicated
        self.ids: dict[str, str] = {}  # the id of each member
        self.topics: dict[str, Topic] = {}
        self.now_ms = 0
        self.wake_ms: int | None = None
        self.holding = False
        self.held: list[Append] = []
        self.said: list[str] = []
        self.offsets = ""

    def run(self, case: Case) -> str:
        self.said = []
        getattr(self, "do_" + case.command.replace("-", "_"))(case)
        self.groups.check()
        return "\n".join(self.said or ["ok"])

    # ── the coordinator ──

    def do_groups(self, case: Case) -> None:
        config = GroupConfig(
            group_initial_rebalance_delay_ms=milliseconds(case.option("delay", "0s")),
            group_consumer_assignment_interval_ms=milliseconds(case.option("interval", "0s")),
            group_max_size=case.number("max-size", 100),
            group_consumer_max_size=case.number("max-size", 100),
        )
        self.groups, self.log, self.ids = Groups(config, Random(1)), [], {}
        self._tell(Load([]))
        self._tell(TopicsAre(dict(self.topics)))

    def do_topics(self, case: Case) -> None:
        self.topics = {
            name: Topic(name.encode().ljust(16, b"\0"), int(count))
            for name, count in case.options.items()
        }
        self._tell(TopicsAre(dict(self.topics)))

    def do_hold(self, _case: Case) -> None:
        self.holding = True

    def do_release(self, case: Case) -> None:
        held, self.held, self.holding = self.held, [], False
        for effect in held:
            if "fail" in case.options:
                self._tell(AppendFailed(effect.token, KafkaError[case.option("fail")]))
            else:
                self._replicated(effect)

    def do_pass(self, case: Case) -> None:
        until_ms = self.now_ms + milliseconds(case.words[0])
        while self.wake_ms is not None and self.wake_ms <= until_ms:
            self.now_ms, self.wake_ms = max(self.now_ms, self.wake_ms), None
            self._tell(Tick())
        self.now_ms = until_ms

    def do_move(self, _case: Case) -> None:
        """Another broker takes over, with what is replicated, through bytes and back."""
        self._tell(Unload())
        self.groups = Groups(self.groups._desk.config, Random(2))
        self.wake_ms, self.held, self.holding = None, [], False
        read = [group_log.from_bytes(*group_log.to_bytes(one), "log") for one in self.log]
        self._tell(Load([one for one in read if one is not None]))
        self._tell(TopicsAre(dict(self.topics)))

    def do_forget_empty(self, case: Case) -> None:
        self._tell(ForgetEmpty(frozenset(case.words)))

    def do_state(self, _case: Case) -> None:
        group = self.groups.groups.get(GROUP)
        if group is None:
            self.said.append("no such group")
        elif isinstance(group, ClassicGroup):
            members = " ".join(self._name(member) for member in group.members.by_id)
            self.said.append(f"{group.state.value} generation {group.generation}: {members}")
        else:
            state = group.durable
            self.said.append(f"{state.name} epoch {state.epoch}, target {state.target_epoch}")
            for member in state.members.values():
                has = _say_held(member.assigned)
                loses = f", loses {_say_held(member.revoking)}" if member.revoking else ""
                target = _say_partitions(state.targets.get(member.member_id, {}))
                name = self._name(member.member_id)
                self.said.append(
                    f"  {name} epoch {member.epoch}, has {has}{loses}, target {target}"
                )

    def do_offsets_hear(self, _case: Case) -> None:
        self.said.append(self.offsets)

    def do_list(self, _case: Case) -> None:
        for found in self.groups.list():
            kind = found.protocol_type or "-"
            self.said.append(f"{found.group_id} {found.group_type} {kind} {found.group_state}")

    # ── the classic protocol ──

    def do_join(self, case: Case) -> None:
        name = case.words[0]
        topics = case.option("topics", "orders").split(",")
        metadata = encode_versioned(ConsumerProtocolSubscription(topics), 1)
        protocols = [
            JoinGroupRequestProtocol(protocol, metadata)
            for protocol in case.option("protocols", "range").split(",")
        ]
        request = JoinGroupRequest(
            GROUP,
            milliseconds(case.option("session", "10s")),
            milliseconds(case.option("rebalance", "60s")),
            case.option("id", self.ids.get(name, "")),
            case.options.get("instance"),
            case.option("type", "consumer"),
            protocols,
        )
        self._ask(name, request, case.number("version", 9))

    def do_sync(self, case: Case) -> None:
        name = case.words[0]
        generation = case.number("generation")
        given = [
            SyncGroupRequestAssignment(self.ids[who], what.encode())
            for who, what in case.options.items()
            if who != "generation"
        ]
        request = SyncGroupRequest(GROUP, generation, self._id(name), assignments=given)
        self._ask(name, request, 4)

    def do_heartbeat(self, case: Case) -> None:
        name = case.words[0]
        instance = case.options.get("instance")
        member_id = case.option("id", self._id(name))
        request = HeartbeatRequest(GROUP, case.number("generation"), member_id, instance)
        self._ask(name, request, 4)

    def do_leave(self, case: Case) -> None:
        leaving = [MemberIdentity(self._id(name)) for name in case.words]
        if "instance" in case.options:
            leaving = [MemberIdentity("", case.option("instance"))]
        self._ask("operator", LeaveGroupRequest(GROUP, members=leaving), 5)

    # ── the consumer protocol ──

    def do_beat(self, case: Case) -> None:
        """`owned=` is what the member says it has; `-` for nothing."""
        name = case.words[0]
        epoch = case.number("epoch")
        joins = epoch == 0
        owned = case.option("owned", "-" if joins else "")
        topics, regex = case.options.get("topics"), case.options.get("regex")
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            name,
            epoch,
            case.options.get("instance"),
            None,
            milliseconds(case.option("rebalance", "60s")) if joins else -1,
            None if topics is None else [topic for topic in topics.split(",") if topic],
            regex,
            case.options.get("assignor"),
            None if not owned else self._owned(owned),
        )
        self._ask(name, request, 1)

    def _owned(self, text: str) -> list[RequestTopicPartitions]:
        found = []
        for word in text.split(";") if text != "-" else []:
            topic, _, numbers = word.partition(":")
            partitions = [int(number) for number in numbers.split(",")]
            found.append(RequestTopicPartitions(self.topics[topic].topic_id, partitions))
        return found

    # ── offsets, and the end ──

    def do_commit(self, case: Case) -> None:
        """`commit a generation=1`; in a consumer group it may say which partitions."""
        name = case.words[0]
        partitions = [
            (self.topics[topic].topic_id, int(number))
            for word in case.words[1:]
            for topic, _, number in (word.partition(":"),)
        ]
        error = self.groups.may_commit(
            GROUP,
            self._id(name),
            case.options.get("instance"),
            case.number("generation"),
            partitions,
            version=case.number("version", 9),
            clock_ms=self.now_ms,
            transactional="transactional" in case.options,
        )
        self.said.append(f"{name}: {error.name}")

    def do_delete(self, _case: Case) -> None:
        self._tell(DeleteGroup("operator", GROUP))

    # ── how it is carried out ──

    def _id(self, name: str) -> str:
        return self.ids.get(name, "" if name == "nobody" else name)

    def _name(self, member_id: str) -> str:
        known = (name for name, known in self.ids.items() if known == member_id)
        return next(known, member_id[:-36] + "..." if len(member_id) > 36 else member_id)

    def _ask(self, name: str, request: MemberRequest, version: int) -> None:
        self._tell(Asked(name, request, version, Client("client", "/127.0.0.1")))

    def _tell(self, event: Event) -> None:
        effects = self.groups.handle(event, self.now_ms, self.now_ms)
        for effect in effects:
            match effect:
                case Answer(caller, JoinGroupResponse(error_code=code, member_id=member_id)):
                    if code in (KafkaError.NONE, KafkaError.MEMBER_ID_REQUIRED):
                        self.ids[str(caller)] = member_id
        for effect in effects:
            match effect:
                case WakeAt(ms):
                    self.wake_ms = ms
                case Answer(caller, answer):
                    self.said.append(f"{caller}: {self._say(answer)}")
                case Append(_, records):
                    self.said.append("append " + "; ".join(map(self._say_record, records)))
                    if self.holding:
                        self.held.append(effect)
                    else:
                        self._replicated(effect)
                case GroupChanged(_, subscribed, empty_since_ms):
                    topics = "anything" if subscribed is None else ",".join(subscribed) or "nothing"
                    since = f", empty since {empty_since_ms}" if empty_since_ms >= 0 else ""
                    self.offsets = f"subscribed to {topics}{since}"

    def _replicated(self, effect: Append) -> None:
        self.log += effect.records
        self._tell(Appended(effect.token))

    def _say(self, answer: MemberResponse | KafkaError) -> str:
        match answer:
            case KafkaError():
                return answer.name
            case JoinGroupResponse(error_code=0):
                members = " ".join(self._name(member.member_id) for member in answer.members)
                skip = ", no assignment needed" if answer.skip_assignment else ""
                others = f", members {members}" if members else ""
                leader = self._name(answer.leader)
                return (
                    f"generation {answer.generation_id}, {answer.protocol_name}, "
                    f"leader {leader}{others}{skip}"
                )
            case SyncGroupResponse(error_code=0):
                return answer.assignment.decode() or "nothing"
            case LeaveGroupResponse(error_code=0):
                errors = [KafkaError(member.error_code).name for member in answer.members]
                return ", ".join(errors)
            case ConsumerGroupHeartbeatResponse(error_code=0):
                said = f"epoch {answer.member_epoch}"
                if answer.assignment is not None:
                    topics = answer.assignment.topic_partitions
                    has = {topic.topic_id: tuple(topic.partitions) for topic in topics}
                    said += f", {_say_partitions(has)}"
                return said
            case HeartbeatResponse():
                return KafkaError(answer.error_code).name
            case _:
                return KafkaError(answer.error_code).name

    def _say_record(self, record: GroupRecord) -> str:
        key, value = record.key, record.value
        member = self._name(getattr(key, "member_id", ""))
        match value:
            case None:
                kind = type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
                return " ".join(filter(None, ["no", kind, member]))
            case stored.GroupMetadataValue():
                members = " ".join(
                    f"{self._name(m.member_id)}={m.assignment.decode()}" for m in value.members
                )
                return f"generation {value.generation}: {members or 'nobody'}"
            case stored.ConsumerGroupMetadataValue():
                return f"epoch {value.epoch}"
            case stored.ConsumerGroupMemberMetadataValue():
                wants = ",".join(value.subscribed_topic_names) or value.subscribed_topic_regex
                return f"{member} wants {wants or 'nothing'}"
            case stored.ConsumerGroupTargetAssignmentMemberValue():
                target = {t.topic_id: tuple(t.partitions) for t in value.topic_partitions}
                return f"target {member} {_say_partitions(target)}"
            case stored.ConsumerGroupTargetAssignmentMetadataValue():
                return f"target epoch {value.assignment_epoch}"
            case stored.ConsumerGroupCurrentMemberAssignmentValue():
                has = {t.topic_id: tuple(t.partitions) for t in value.assigned_partitions}
                state = MEMBER_STATES[value.state]
                return f"{member} at {value.member_epoch} {state} {_say_partitions(has)}"
            case stored.ConsumerGroupRegularExpressionValue():
                assert isinstance(key, stored.ConsumerGroupRegularExpressionKey)
                return f"{key.regular_expression} is {','.join(value.topics) or 'nothing'}"
            case _:
                raise NotImplementedError(value)


def _say_held(held: Held) -> str:
    return _say_partitions({topic: tuple(partitions) for topic, partitions in held.items()})


def _say_partitions(partitions: Partitions) -> str:
    said = [
        f"{topic.rstrip(bytes(1)).decode()}:{','.join(map(str, numbers))}"
        for topic, numbers in partitions.items()
    ]
    return ";".join(said) or "-"


@datadriven(__file__, "testdata/group_*.txt")
def test_groups(path: Path) -> None:
    run_file(path, Story().run)


def test_a_member_that_kafka_wrote_down_as_away_and_unrevoked_has_let_go() -> None:
    key = stored.ConsumerGroupCurrentMemberAssignmentKey(GROUP, "a")
    held = [stored.TopicPartitions(b"orders".ljust(16, b"\0"), [0, 1], [])]
    value = stored.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=LEAVING_STATIC,
        previous_member_epoch=2,
        state=MemberState.UNREVOKED.value,
        assigned_partitions=held,
        partitions_pending_revocation=[],
    )
    state = GroupState()
    state.apply(GroupRecord(key, value))
    state.check()
    assert state.members["a"].state is MemberState.STABLE
