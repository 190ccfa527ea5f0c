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
    MemberResponse,
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


class Consumers:
    """Three members, and what each of them believes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = Coordinator(self.random)
        self.members = {name: Member(name, ["one", "two"]) for name in "abc"}
        if seed % 3 == 0:
            self.members["c"].topics = ["two"]
        if seed % 2:
            self.members["b"].instance = "static"
        self.waiting: set[str] = set()
        self.given_up: set[str] = set()

    def beat(self, member: Member, leaves: bool = False) -> None:
        leaves = leaves and member.instance is not None and member.epoch > 0
        request = member.leave() if leaves else member.request()
        self.world.tell(Asked(member.name, request, 1))
        self.waiting.add(member.name)

    def hear(self, lossy: bool) -> None:
        for answer in self.world.take_answers():
            assert answer.caller in self.waiting, "an answer to nothing"
            name = str(answer.caller)
            self.waiting.discard(name)
            assert isinstance(answer.answer, ConsumerGroupHeartbeatResponse)
            if name in self.given_up:
                self.given_up.discard(name)  # it has closed that connection
            elif lossy and self.random.random() < 0.2:
                self.members[name].unsure = True
            else:
                self.members[name].hear(answer.answer, self.world.now_ms)

    def no_two_own_one(self) -> None:
        for member in self.members.values():  # who has heard nothing for a session stops by itself
            if self.world.now_ms - member.last_ms > 40_000:
                member.owned, member.epoch, member.last_ms = set(), 0, self.world.now_ms
                self.given_up.update({member.name} & self.waiting)
        owned = self.owned()
        assert len(owned) == len(set(owned)), "two members own a partition"

    def owned(self) -> list[One]:
        return sorted(one for member in self.members.values() for one in member.owned)

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.6:
            name = self.random.choice(sorted(self.members))
            if name not in self.waiting:
                self.beat(self.members[name], leaves=chance < 0.12)
        elif chance < 0.75:
            self.world.replicate()
        elif chance < 0.78:
            self.world.refusing = not self.world.refusing
        elif chance < 0.85:
            self.world.pass_ms(self.random.choice([100, 3_000, 15_000]))
        elif chance < 0.9:
            self.world.move()
        else:
            self.hear(lossy=True)
        self.no_two_own_one()

    def recover(self) -> None:
        """Two seconds in which nothing is lost."""
        self.world.pass_ms(2_000)
        self.world.replicate()
        self.hear(lossy=False)
        for member in self.members.values():
            if member.name not in self.waiting:
                self.beat(member)
        self.world.replicate()
        self.hear(lossy=False)
        self.no_two_own_one()


def walk_consumers(seed: int) -> None:
    consumers = Consumers(seed)
    for _ in range(STEPS):
        consumers.step()
    consumers.world.refusing = False
    for _ in range(40):  # a static member that was not heard when it left waits for its own session
        consumers.recover()
    every = [(t.topic_id, p) for t in TOPICS.values() for p in range(t.partitions)]
    assert consumers.owned() == every


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

    def leave(self) -> MemberRequest:
        return LeaveGroupRequest(GROUP, members=[MemberIdentity(self.member_id, self.instance)])

    def request(self) -> MemberRequest:
        if self.wants == "join":
            protocols = [JoinGroupRequestProtocol("range", self.name.encode())]
            return JoinGroupRequest(
                GROUP, 10_000, 20_000, self.member_id, self.instance, "consumer", protocols
            )
        if self.wants == "sync":
            given = [SyncGroupRequestAssignment(m, m.encode()) for m in self.leads]
            return SyncGroupRequest(
                GROUP, self.generation, self.member_id, self.instance, assignments=given
            )
        return HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance)

    def hear(self, response: MemberResponse) -> None:
        error = KafkaError(response.error_code)
        if isinstance(response, JoinGroupResponse) and error in (
            KafkaError.NONE, KafkaError.MEMBER_ID_REQUIRED,
        ):  # fmt: skip
            self.member_id = response.member_id
        if error in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID):
            self.member_id, self.wants, self.synced = "", "join", False
        elif error:
            self.wants, self.synced = "join", False
        elif isinstance(response, JoinGroupResponse):
            self.generation = response.generation_id
            self.leads = tuple(member.member_id for member in response.members)
            self.wants, self.synced = "sync", False
        elif isinstance(response, SyncGroupResponse):
            part = response.assignment.decode()
            known = part.startswith("i-c-") if self.instance else part == self.member_id
            assert known, "another one's part"
            self.wants, self.synced = "heartbeat", True


class Joiners:
    """Three of them; all who wait are answered once."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = Coordinator(self.random)
        self.members = {name: Joiner(name, "i-c" if name == "c" else None) for name in "abc"}
        self.waiting: set[str] = set()

    def ask(self, joiner: Joiner, leave: bool = False) -> None:
        request = joiner.leave() if leave else joiner.request()
        self.waiting.add(joiner.name)
        version = 4 if isinstance(request, SyncGroupRequest) else 9
        self.world.tell(Asked(joiner.name, request, version))

    def hear(self) -> None:
        for answer in self.world.take_answers():
            name = str(answer.caller)
            assert name in self.waiting, "an answer to nothing"
            self.waiting.discard(name)
            assert not isinstance(answer.answer, KafkaError)
            self.members[name].hear(answer.answer)

    def step(self) -> None:
        chance = self.random.random()
        free = [joiner for joiner in self.members.values() if joiner.name not in self.waiting]
        if chance < 0.65 and free:
            self.ask(self.random.choice(free))
        elif chance < 0.68 and free:
            self.ask(self.random.choice(free), leave=True)
        elif chance < 0.8:
            self.world.replicate()
        elif chance < 0.82:
            self.world.refusing = not self.world.refusing
        elif chance < 0.88:
            self.world.pass_ms(self.random.choice([100, 3_000, 12_000]))
        elif chance < 0.91:
            self.world.move()
        self.hear()

    def recover(self) -> None:
        """A second in which nothing is refused."""
        self.world.pass_ms(1_000)
        self.world.replicate()
        self.hear()
        for joiner in self.members.values():
            if joiner.name not in self.waiting:
                self.ask(joiner)
            self.world.pass_ms(0)
            self.world.replicate()
            self.hear()


def walk_classic(seed: int) -> None:
    """All that is asked comes to an end."""
    joiners = Joiners(seed)
    for _ in range(STEPS):
        joiners.step()
    joiners.world.refusing = False
    for _ in range(60):
        joiners.recover()
    assert all(joiner.synced for joiner in joiners.members.values()), seed
    assert len({joiner.generation for joiner in joiners.members.values()}) == 1


@pytest.mark.parametrize("seeds", range(4))
def test_classic_groups_settle(seeds: int) -> None:
    walk_all(walk_classic, range(seeds, SEEDS, 4))
