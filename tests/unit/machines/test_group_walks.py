"""Do groups hold whatever happens, in any order?

Members come and go, heartbeats and answers are lost, time passes and coordinators change, all by
chance. After each step the machine checks itself; beside it stands what the members believe, which
is what counts: in a consumer group no two of them may think at once that a partition is theirs.
When everybody is well again for a while, every partition is with exactly one member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.machines import group_log, group_reconcile
from sexton.machines.group_assignors import ASSIGNORS, Subscriber
from sexton.machines.group_consumer_state import LEAVING_STATIC
from sexton.machines.group_messages import (
    Answer,
    Append,
    Appended,
    AppendFailed,
    Asked,
    Event,
    GroupConfig,
    GroupRecord,
    Load,
    MemberRequest,
    Tick,
    Topic,
    TopicsAre,
    Unload,
    WakeAt,
)
from sexton.machines.groups import Groups
from sexton.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from sexton.protocol.messages.heartbeat import HeartbeatRequest
from sexton.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from sexton.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sexton.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP = "walkers"
TOPICS = {"one": Topic(b"1" * 16, 5), "two": Topic(b"2" * 16, 3)}
SEEDS = 40
STEPS = 250

FENCED = (
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.GROUP_ID_NOT_FOUND,
)
One = tuple[bytes, int]


class Coordinator:
    """The machine with its log, of which a part may not be replicated yet."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = 1_000_000
        self.log: list[GroupRecord] = []
        self.refusing = False  # the log takes nothing just now
        self.under_way: list[Append] = []
        self.answers: list[Answer] = []
        self.wake_ms: int | None = None
        self.groups = Groups(GroupConfig(group_initial_rebalance_delay_ms=0), random)
        self.tell(Load([]))
        self.tell(TopicsAre(TOPICS))

    def tell(self, event: Event) -> None:
        for effect in self.groups.handle(event, self.now_ms, self.now_ms):
            match effect:
                case Append() if self.refusing:
                    self.tell(AppendFailed(effect.token, KafkaError.NOT_ENOUGH_REPLICAS))
                case Append():
                    self.under_way.append(effect)
                case Answer():
                    self.answers.append(effect)
                case WakeAt(ms):
                    self.wake_ms = ms
        self.groups.check()

    def replicate(self) -> None:
        under_way, self.under_way = self.under_way, []
        for append in under_way:
            self.log += append.records
            self.tell(Appended(append.token))

    def pass_ms(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while self.wake_ms is not None and self.wake_ms <= until_ms:
            self.now_ms, self.wake_ms = max(self.now_ms, self.wake_ms), None
            self.tell(Tick())
        self.now_ms = until_ms

    def move(self) -> None:
        self.tell(Unload())
        self.under_way, self.wake_ms = [], None
        self.groups = Groups(GroupConfig(group_initial_rebalance_delay_ms=0), self.random)
        read = [group_log.from_bytes(*group_log.to_bytes(one), "log") for one in self.log]
        self.tell(Load([one for one in read if one is not None]))
        self.tell(TopicsAre(TOPICS))

    def take_answers(self) -> list[Answer]:
        answers, self.answers = self.answers, []
        return answers


# ── the consumer protocol ──


@dataclass
class Member:
    """What a client knows. It lets go of what is not its own any more before it says so."""

    name: str
    topics: list[str]
    epoch: int = 0
    owned: set[One] = field(default_factory=set)
    last_ms: int = 0  # of its last good answer: it gives up all when its session must be over
    unsure: bool = False  # it missed an answer, so it says all that it wants again, and hears all
    instance: str | None = None  # it is static, and leaves for a moment now and then

    def leave(self) -> ConsumerGroupHeartbeatRequest:
        self.epoch, self.owned = 0, set()  # whether it is heard or not
        return ConsumerGroupHeartbeatRequest(GROUP, self.name, LEAVING_STATIC, self.instance)

    def request(self) -> ConsumerGroupHeartbeatRequest:
        joins = self.epoch == 0
        if joins:
            self.owned = set()
        by_topic: dict[bytes, list[int]] = {}
        for topic, partition in sorted(self.owned):
            by_topic.setdefault(topic, []).append(partition)
        return ConsumerGroupHeartbeatRequest(
            GROUP,
            self.name,
            self.epoch,
            self.instance,
            rebalance_timeout_ms=20_000 if joins or self.unsure else -1,
            subscribed_topic_names=list(self.topics) if joins or self.unsure else None,
            topic_partitions=[RequestTopicPartitions(t, ps) for t, ps in by_topic.items()],
        )

    def hear(self, answer: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        error = KafkaError(answer.error_code)
        if error in FENCED:
            self.epoch, self.owned = 0, set()
        elif error is not KafkaError.NONE:
            self.unsure = True
        elif answer.member_epoch == LEAVING_STATIC:
            self.last_ms = now_ms
        else:
            self.epoch, self.last_ms, self.unsure = answer.member_epoch, now_ms, False
            if answer.assignment is not None:
                self.owned = {
                    (t.topic_id, p)
                    for t in answer.assignment.topic_partitions
                    for p in t.partitions
                }


def walk_consumers(seed: int) -> None:
    random = Random(seed)
    world = Coordinator(random)
    members = {name: Member(name, ["one", "two"]) for name in "abc"}
    if seed % 3 == 0:
        members["c"].topics = ["two"]
    if seed % 2:
        members["b"].instance = "static"
    waiting: set[str] = set()
    given_up: set[str] = set()

    def beat(member: Member, leaves: bool = False) -> None:
        leaves = leaves and member.instance is not None and member.epoch > 0
        request = member.leave() if leaves else member.request()
        world.tell(Asked(member.name, request, 1))
        waiting.add(member.name)

    def hear(lossy: bool) -> None:
        for answer in world.take_answers():
            assert answer.caller in waiting, "an answer to nothing"
            waiting.discard(str(answer.caller))
            assert isinstance(answer.answer, ConsumerGroupHeartbeatResponse)
            if str(answer.caller) in given_up:
                given_up.discard(str(answer.caller))  # it has closed that connection
            elif lossy and random.random() < 0.2:
                members[str(answer.caller)].unsure = True
            else:
                members[str(answer.caller)].hear(answer.answer, world.now_ms)

    def no_two_own_one() -> None:
        for member in members.values():  # who has heard nothing for a session stops by itself
            if world.now_ms - member.last_ms > 40_000:
                member.owned, member.epoch, member.last_ms = set(), 0, world.now_ms
                given_up.update({member.name} & waiting)
        owned = [one for member in members.values() for one in member.owned]
        assert len(owned) == len(set(owned)), "two members own a partition"

    for _ in range(STEPS):
        chance = random.random()
        if chance < 0.6:
            name = random.choice(sorted(members))
            if name not in waiting:
                beat(members[name], leaves=chance < 0.12)
        elif chance < 0.75:
            world.replicate()
        elif chance < 0.78:
            world.refusing = not world.refusing
        elif chance < 0.85:
            world.pass_ms(random.choice([100, 3_000, 15_000]))
        elif chance < 0.9:
            world.move()
        else:
            hear(lossy=True)
        no_two_own_one()
    world.refusing = False
    for _ in range(40):  # a static member that was not heard when it left waits for its own session
        world.pass_ms(2_000)
        world.replicate()
        hear(lossy=False)
        for member in members.values():
            if member.name not in waiting:
                beat(member)
        world.replicate()
        hear(lossy=False)
        no_two_own_one()
    owned = sorted(one for member in members.values() for one in member.owned)
    assert owned == [(t.topic_id, p) for t in TOPICS.values() for p in range(t.partitions)]


def walk_all(walk: Callable[[int], None], seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            walk(seed)
        except AssertionError as error:
            error.add_note(f"in {walk.__name__}({seed})")
            raise


@pytest.mark.parametrize("seeds", range(4))
def test_no_two_members_own_a_partition(seeds: int) -> None:
    walk_all(walk_consumers, range(seeds, SEEDS, 4))


def test_a_coordinator_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: one that gives a partition away before its owner has let go of it."""
    monkeypatch.setattr(group_reconcile, "_holds_on", lambda _revoking, _owned: False)
    with pytest.raises(AssertionError, match="two members own a partition"):
        walk_all(walk_consumers, range(SEEDS))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_assignors_are_complete_fair_and_sticky(name: str) -> None:
    random = Random(7)
    for _ in range(300):
        counts = {bytes([t]) * 16: random.randint(1, 6) for t in range(random.randint(1, 3))}
        topics = sorted(counts)
        alike = random.random() < 0.5
        members = {}
        for number in range(random.randint(1, 5)):
            wanted = topics if alike else random.sample(topics, random.randint(1, len(topics)))
            members[f"m{number}"] = Subscriber(frozenset(wanted))
        wanted_by_any = {topic for member in members.values() for topic in member.topics}
        known = {topic: count for topic, count in counts.items() if topic in wanted_by_any}
        given = ASSIGNORS[name](members, known)
        _complete(members, known, given)
        again = {n: Subscriber(m.topics, given[n]) for n, m in members.items()}
        assert ASSIGNORS[name](again, known) == given, "nothing changed, and something moves"
        sizes = [sum(map(len, partitions.values())) for partitions in given.values()]
        if alike and name == "uniform":
            assert max(sizes) - min(sizes) <= 1
        gone = random.choice(sorted(members))
        rest = {n: member for n, member in again.items() if n != gone}
        if rest:
            left = {t: c for t, c in known.items() if any(t in m.topics for m in rest.values())}
            _complete(rest, left, ASSIGNORS[name](rest, left))


def _complete(
    members: dict[str, Subscriber],
    counts: dict[bytes, int],
    given: dict[str, dict[bytes, tuple[int, ...]]],
) -> None:
    dealt = sorted((t, p) for topics in given.values() for t, ps in topics.items() for p in ps)
    assert dealt == [(t, p) for t in sorted(counts) for p in range(counts[t])]
    for name, topics in given.items():
        assert set(topics) <= members[name].topics


# ── the classic protocol ──


@dataclass
class Joiner:
    name: str
    instance: str | None
    member_id: str = ""
    generation: int = -1
    leads: tuple[str, ...] = ()
    synced: bool = False
    wants: str = "join"  # what it will ask next


def walk_classic(seed: int) -> None:
    """All who wait are answered once; all that is asked comes to an end."""
    random = Random(seed)
    world = Coordinator(random)
    joiners = {name: Joiner(name, "i-c" if name == "c" else None) for name in "abc"}
    waiting: dict[str, MemberRequest] = {}
    generations: dict[str, int] = {}

    def ask(joiner: Joiner, leave: bool = False) -> None:
        request: MemberRequest
        if leave:
            request = LeaveGroupRequest(
                GROUP, members=[MemberIdentity(joiner.member_id, joiner.instance)]
            )
        elif joiner.wants == "join":
            protocols = [JoinGroupRequestProtocol("range", joiner.name.encode())]
            request = JoinGroupRequest(
                GROUP, 10_000, 20_000, joiner.member_id, joiner.instance, "consumer", protocols
            )
        elif joiner.wants == "sync":
            given = [SyncGroupRequestAssignment(m, m.encode()) for m in joiner.leads]
            request = SyncGroupRequest(
                GROUP, joiner.generation, joiner.member_id, joiner.instance, assignments=given
            )
        else:
            request = HeartbeatRequest(GROUP, joiner.generation, joiner.member_id, joiner.instance)
        waiting[joiner.name] = request
        version = 4 if isinstance(request, SyncGroupRequest) else 9
        world.tell(Asked(joiner.name, request, version))

    def hear() -> None:
        for answer in world.take_answers():
            name = str(answer.caller)
            assert name in waiting, "an answer to nothing"
            del waiting[name]
            joiner, response = joiners[name], answer.answer
            assert not isinstance(response, KafkaError)
            error = KafkaError(response.error_code)
            if isinstance(response, JoinGroupResponse) and error in (
                KafkaError.NONE, KafkaError.MEMBER_ID_REQUIRED,
            ):  # fmt: skip
                joiner.member_id = response.member_id
            if error in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID):
                joiner.member_id, joiner.wants, joiner.synced = "", "join", False
            elif error:
                joiner.wants, joiner.synced = "join", False
            elif isinstance(response, JoinGroupResponse):
                joiner.generation = response.generation_id
                joiner.leads = tuple(member.member_id for member in response.members)
                joiner.wants, joiner.synced = "sync", False
            elif isinstance(response, SyncGroupResponse):
                part = response.assignment.decode()
                known = part.startswith("i-c-") if joiner.instance else part == joiner.member_id
                assert known, "another one's part"
                joiner.wants, joiner.synced = "heartbeat", True
                generations[name] = joiner.generation

    for _ in range(STEPS):
        chance = random.random()
        free = [joiner for joiner in joiners.values() if joiner.name not in waiting]
        if chance < 0.65 and free:
            ask(random.choice(free))
        elif chance < 0.68 and free:
            ask(random.choice(free), leave=True)
        elif chance < 0.8:
            world.replicate()
        elif chance < 0.82:
            world.refusing = not world.refusing
        elif chance < 0.88:
            world.pass_ms(random.choice([100, 3_000, 12_000]))
        elif chance < 0.91:
            world.move()
        hear()
    world.refusing = False
    for _ in range(60):
        world.pass_ms(1_000)
        world.replicate()
        hear()
        for joiner in joiners.values():
            if joiner.name not in waiting:
                ask(joiner)
            world.pass_ms(0)
            world.replicate()
            hear()
    assert all(joiner.synced for joiner in joiners.values()), seed
    assert len({joiner.generation for joiner in joiners.values()}) == 1


@pytest.mark.parametrize("seeds", range(4))
def test_classic_groups_settle(seeds: int) -> None:
    walk_all(walk_classic, range(seeds, SEEDS, 4))
