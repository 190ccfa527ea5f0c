"""A controller that is told anything, in any order, also what cannot be true.

Brokers start, start again with any disk, fall silent, leave; leaders claim what they like, in terms
long gone; administrators create, delete, reassign and elect. After every step the controller's own
invariants hold; the records it wrote, folded from scratch, are its image; and between any record of
a partition and the next one nothing happened that must not:

    * neither epoch goes back, not even when a topic is deleted and created again
    * an epoch has one leader at most
    * whoever leads was in the ISR, or the record says that records were lost
    * whoever is in the ISR was put there by the leader, or leads after a loss
    * what was heard of never goes back but with a loss; what was agreed on before one, also when
      its leader says that its log ends below; and what was agreed on since, never
    * nobody is given an assignment number that somebody had before
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sexton.base.partitions import TopicPartition
from sexton.machines.compaction import Removable
from sexton.machines.controller import (
    AllocateProducerIds,
    AlterConfigs,
    AlterIsr,
    Answer,
    Append,
    Controller,
    ControllerConfig,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    Effect,
    Elect,
    Event,
    Heartbeat,
    HeartbeatAnswer,
    IsrAltered,
    ProducerIds,
    ProposeRemovable,
    Reassign,
    RegisterBroker,
    Registered,
    RemovableKept,
    ReplicaState,
    Tick,
    WakeAt,
)
from sexton.machines.ledger import UNCLEAN
from sexton.machines.metadata import (
    BrokerRecord,
    Image,
    PartitionRecord,
    Record,
    Removed,
    from_bytes,
    to_bytes,
)

NODES = (1, 2, 3, 4)
TOPICS = ("t", "u")

nodes = st.sampled_from(NODES)
topics = st.sampled_from(TOPICS)
partitions = st.sampled_from([0, 0, 0, 1])
node_sets = st.lists(nodes, min_size=1, max_size=4, unique=True).map(tuple)
offsets = st.integers(0, 6)
seldom = st.integers(0, 7).map(lambda number: number == 0)


@dataclass(slots=True)
class Process:
    """A broker as it sees itself."""

    incarnation: str = ""
    broker_epoch: int = -1
    metadata_end: int = 0
    image: Image = field(default_factory=Image)


@dataclass(slots=True)
class Heard:
    """What a controller ought to know of a partition's offsets."""

    high_watermark: int = 0
    mtro: int = 0
    mxro: int = 0
    agreed: Removable = field(default_factory=Removable)  # since records were last lost


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.config = ControllerConfig(metadata_tail_records=8)
        self.controller = Controller.load([], 0, self.config)
        self.records: list[Record] = []
        self.processes: dict[int, Process] = {}
        self.calls = 0
        self.waiting: dict[int, int] = {}  # heartbeats without an answer: the node of each call
        self.leaders: dict[tuple[str, int, int], int] = {}
        self.epochs: dict[tuple[str, int], int] = {}  # the highest of each partition, ever
        self.numbers: set[int] = set()
        self.heard: dict[TopicPartition, Heard] = {}
        self.fenced_at: dict[int, int] = {}  # where the record is that says so
        self.producer_ids = 0

    @initialize()
    def everyone_is_well(self) -> None:
        for node in NODES:
            self.recover(node)
        self.ask(CreateTopic(self.calls, "t", f"id {self.calls}", 2, 3))
        self.ask(CreateTopic(self.calls, "u", f"id {self.calls}", 1, 1))

    # ── brokers ──

    @rule(node=nodes)
    def recover(self, node: int) -> None:
        """A broker does what it must to be active."""
        broker = self.controller.image.brokers.get(node)
        epoch = self.processes.get(node, Process()).broker_epoch
        if broker is None or broker.broker_epoch != epoch or broker.in_shutdown:
            self.start(node, 0, True, False)
        for _ in range(3):
            self.heartbeat(node, False)
        assert self.controller.image.active(node)

    @rule(topic=topics, partition=partitions)
    def catch_up(self, topic: str, partition: int) -> None:
        """Whoever can be in sync with its leader is."""
        record = self.controller.image.partition(topic, partition)
        if record is not None:
            self.alter_isr(topic, partition, NODES, False, False)

    @rule(node=nodes, found=offsets, fit=st.booleans(), again=seldom)
    def start(self, node: int, found: int, fit: bool, again: bool) -> None:
        """A new process, with the log that would be right or with any; or the same one anew."""
        process = self.processes.setdefault(node, Process())
        if not again or not process.incarnation:
            self.processes[node] = process = Process(f"{node}, {len(self.records)}")
        before = dict(self.controller.image.partitions)
        logs, judged = [], {}
        for at in self.controller.image.hosted_by(node):
            known = self.heard[at]
            best = (known.high_watermark, known.mtro, known.mxro)
            end, mcco, mxfo = best if fit else (found, found, found)
            logs.append(ReplicaState(*at, before[at].members[node], end, mcco, mxfo))
            judged[at] = end >= best[0] and mcco >= best[1] and mxfo >= best[2]
        old = self.controller.image.brokers.get(node)
        answer = self.ask(RegisterBroker(self.calls, node, process.incarnation, tuple(logs)))
        assert isinstance(answer, Registered)
        process.broker_epoch = answer.broker_epoch
        if old is None or old.incarnation != process.incarnation:
            assert self.controller.image.brokers[node].fenced
            for at, was_fit in judged.items():
                now = self.controller.image.partitions[at]
                if before[at].isr == (node,):
                    assert now.doubtful != was_fit or now.lost_in == now.leader_epoch
                else:
                    assert node not in now.isr

    @rule(node=nodes, leaving=seldom)
    def heartbeat(self, node: int, leaving: bool) -> None:
        process = self.processes.get(node)
        if process is not None:
            self.beat(node, process.metadata_end, (), leaving)

    @rule(node=nodes, end=st.integers(0, 60))
    def heartbeat_from_anywhere(self, node: int, end: int) -> None:
        if node in self.processes:
            self.beat(node, end, (), False)

    @rule(topic=topics, partition=partitions, offset=offsets, stale=seldom, other=seldom)
    def high_watermark(
        self, topic: str, partition: int, offset: int, stale: bool, other: bool
    ) -> None:
        """Its leader says how far a partition is; or another one does, or in an earlier term."""
        record = self.controller.image.partition(topic, partition)
        if record is None:
            return
        node = record.replicas[-1] if other else record.leader
        process = self.processes.get(node, Process())
        if not self.controller.brokers.knows_epoch(node, process.broker_epoch):
            return
        if node == record.leader and not stale:
            heard = self.heard[record.at]
            if record.leader_epoch == record.lost_in and offset >= heard.high_watermark:
                heard.mtro, heard.mxro = min(heard.mtro, offset), min(heard.mxro, offset)
            heard.high_watermark = max(heard.high_watermark, offset)
        hw = ((topic, partition, record.leader_epoch - stale, offset),)
        self.beat(node, process.metadata_end, hw, False)

    def beat(
        self, node: int, end: int, hw: tuple[tuple[str, int, int, int], ...], leaving: bool
    ) -> None:
        self.waiting[self.calls] = node
        epoch = self.processes[node].broker_epoch
        self.handle(Heartbeat(self.calls, node, epoch, end, hw, leaving))

    @rule(topic=topics, partition=partitions, isr=node_sets, stale=seldom, strange=seldom)
    def alter_isr(
        self, topic: str, partition: int, isr: tuple[int, ...], stale: bool, strange: bool
    ) -> None:
        record = self.controller.image.partition(topic, partition)
        if record is None or record.leader < 0:
            return
        node = isr[-1] if strange else record.leader
        members = dict.fromkeys([record.leader, *filter(self.can_join(strange), isr)])
        process = self.processes.get(node, Process())
        answer = self.ask(
            AlterIsr(
                self.calls,
                node,
                process.broker_epoch,
                topic,
                partition,
                record.leader_epoch - (stale and strange),
                record.partition_epoch - stale,
                tuple(n for n in members if strange or n in record.replicas),
            )
        )
        if isinstance(answer, IsrAltered):
            assert not stale and node == record.leader

    def can_join(self, strange: bool) -> Callable[[int], bool]:
        return lambda node: strange or self.controller.image.active(node)

    @rule(topic=topics, partition=partitions, mtro=offsets, mxro=offsets, stale=seldom)
    def propose(self, topic: str, partition: int, mtro: int, mxro: int, stale: bool) -> None:
        record = self.controller.image.partition(topic, partition)
        if record is None:
            return
        epoch = record.leader_epoch - stale
        answer = self.ask(
            ProposeRemovable(self.calls, record.leader, topic, partition, epoch, mtro, mxro)
        )
        if isinstance(answer, RemovableKept):
            assert not stale
            heard = self.heard[record.at]
            heard.mtro, heard.mxro = max(heard.mtro, mtro), max(heard.mxro, mxro)
            heard.high_watermark = max(heard.high_watermark, mtro, mxro)
            heard.agreed = heard.agreed.raised_to(Removable(mtro, mxro))
            assert (answer.mtro, answer.mxro) == (heard.mtro, heard.mxro)
        else:
            assert stale

    @rule(node=nodes)
    def allocate(self, node: int) -> None:
        epoch = self.processes.get(node, Process()).broker_epoch
        answer = self.ask(AllocateProducerIds(self.calls, node, epoch))
        if isinstance(answer, ProducerIds):
            assert answer.first >= self.producer_ids
            self.producer_ids = answer.first + answer.count

    # ── administrators ──

    @rule(name=topics, count=st.integers(1, 2), factor=st.integers(1, 4))
    def create(self, name: str, count: int, factor: int) -> None:
        self.ask(CreateTopic(self.calls, name, f"id {self.calls}", count, factor))

    @rule(name=topics, replicas=node_sets)
    def create_on(self, name: str, replicas: tuple[int, ...]) -> None:
        topic_id = f"id {self.calls}"
        self.ask(CreateTopic(self.calls, name, topic_id, assignment=(replicas, replicas[::-1])))

    @rule(name=topics, really=seldom)
    def delete(self, name: str, really: bool) -> None:
        if really:
            self.ask(DeleteTopic(self.calls, name))

    @rule(name=topics)
    def grow(self, name: str) -> None:
        self.ask(CreatePartitions(self.calls, name, 2))

    @rule(topic=topics, partition=partitions, replicas=st.none() | node_sets)
    def reassign(self, topic: str, partition: int, replicas: tuple[int, ...] | None) -> None:
        self.ask(Reassign(self.calls, topic, partition, replicas))

    @rule(topic=topics, partition=partitions, unclean=st.booleans())
    def elect(self, topic: str, partition: int, unclean: bool) -> None:
        self.ask(Elect(self.calls, topic, partition, unclean))

    @rule(topic=topics, value=st.sampled_from(["true", "false", None]))
    def allow_unclean(self, topic: str, value: str | None) -> None:
        options = ((UNCLEAN, value),) if value else ()
        delete = () if value else (UNCLEAN,)
        self.ask(AlterConfigs(self.calls, "topic", topic, options, delete))

    # ── time ──

    @rule(ms=st.sampled_from([1, 1000, 9000, 9000]), silent=st.lists(nodes, max_size=3))
    def wait(self, ms: int, silent: list[int]) -> None:
        """Time passes in steps; most brokers heartbeat all the while."""
        for step in range(0, ms, 1000):
            self.now_ms += min(1000, ms - step)
            for node in self.processes:
                if node not in silent:
                    self.heartbeat(node, False)
            self.handle(Tick())

    @rule()
    def restart(self) -> None:
        """The controller is loaded from its compacted log: the last record of each key."""
        last: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, record in enumerate(self.records):
            key, value = to_bytes(record)
            last[key] = (offset, value)
        kept = sorted((offset, key, value) for key, (offset, value) in last.items())
        loaded = [from_bytes(key, value) for _, key, value in kept]
        image, end = self.controller.image, len(self.records)
        self.controller = Controller.load(loaded, self.now_ms, self.config, end)
        assert self.controller.image == image
        self.waiting.clear()
        for at, partition in self.controller.image.partitions.items():
            self.heard[at].high_watermark = partition.high_watermark  # the rest was not written yet
        self.handle(Tick())

    # ── what must be true ──

    def ask(self, event: Event) -> object:
        """The answer, which comes at once, and once."""
        call = self.calls
        answers = [
            effect.answer
            for effect in self.handle(event)
            if isinstance(effect, Answer) and effect.caller == call
        ]
        assert len(answers) == 1
        return answers[0]

    def handle(self, event: Event) -> list[Effect]:
        self.calls += 1
        before = dict(self.controller.image.partitions)
        effects = self.controller.handle(event, self.now_ms)
        for place, effect in enumerate(effects):
            match effect:
                case Append(records, start):
                    assert place == 0, "first of all it is written down"
                    assert start == len(self.records)
                    for record in records:
                        self.written(record, before, event)
                        self.records.append(record)
                case Answer(call, HeartbeatAnswer() as answer):
                    assert isinstance(call, int)
                    self.told(self.processes[self.waiting.pop(call)], answer)
                case Answer(call):
                    assert isinstance(call, int)
                    self.waiting.pop(call, None)
                case WakeAt(ms):
                    assert ms > self.now_ms
        return effects

    def told(self, process: Process, answer: HeartbeatAnswer) -> None:
        assert answer.snapshot or len(answer.records) == answer.end - answer.start
        if answer.snapshot:
            process.image = Image()
        elif answer.start != process.metadata_end:
            return  # it asked for something else: another process did, or a test of ours
        for record in answer.records:
            process.image.apply(record)
        process.metadata_end = answer.end
        assert process.image == Image.of(self.records[: answer.end])

    def written(
        self, record: Record, before: dict[TopicPartition, PartitionRecord], event: Event
    ) -> None:
        if isinstance(record, Removed) and record.key[0] == "partition":
            at = TopicPartition(str(record.key[1]), int(record.key[2]))
            del before[at], self.heard[at]
        if isinstance(record, BrokerRecord):
            self.fenced(record, event)
        if not isinstance(record, PartitionRecord):
            return
        at = record.at
        old = before.get(at)
        before[at] = record
        if old is None:
            self.heard[at] = Heard()
            assert record.leader_epoch > self.epochs.get(at, -1), "a new topic, an old epoch"
            assert not self.numbers.intersection(record.assignments)
        else:
            self.between(old, record, event)
        self.numbers.update(record.assignments)
        self.epochs[at] = record.leader_epoch
        term = (*at, record.leader_epoch)
        assert self.leaders.setdefault(term, record.leader) == record.leader

    def fenced(self, record: BrokerRecord, event: Event) -> None:
        """Who was fenced is unfenced when it says that it has heard of that, and not before."""
        if record.fenced:
            self.fenced_at.setdefault(record.node, len(self.records))
        elif record.node in self.fenced_at:
            assert isinstance(event, Heartbeat)
            assert event.metadata_end > self.fenced_at.pop(record.node)

    def between(self, old: PartitionRecord, new: PartitionRecord, event: Event) -> None:
        same = old.without_offsets() == new.without_offsets()
        assert new.partition_epoch == old.partition_epoch + (not same)
        assert new.leader_epoch - old.leader_epoch in (0, 1)
        lost = new.lost_in != old.lost_in
        if lost:
            assert new.lost_in == new.leader_epoch > old.leader_epoch and new.isr == (new.leader,)
        put_there = event.isr if isinstance(event, AlterIsr) else ()
        if not lost:
            assert new.leader in (-1, *old.isr, *put_there)
            assert all(node in (*old.isr, *put_there) for node in new.isr)
            assert new.high_watermark >= old.high_watermark
        voided = isinstance(event, Heartbeat) and new.leader_epoch == new.lost_in
        assert lost or voided or (new.mtro >= old.mtro and new.mxro >= old.mxro)
        if lost:
            assert new.mtro <= old.mtro and new.mxro <= old.mxro
            self.heard[new.at] = Heard(new.high_watermark, new.mtro, new.mxro)
        if set(new.replicas) != set(old.replicas):
            assert new.leader_epoch > old.leader_epoch
        for node, number in new.members.items():
            if node in old.members:
                assert number == old.members[node]
            else:
                assert number not in self.numbers

    @invariant()
    def holds(self) -> None:
        self.controller.check()
        assert Image.of(self.records) == self.controller.image
        assert Image.of(self.controller.image.records()) == self.controller.image
        for at, partition in self.controller.image.partitions.items():
            heard = self.heard[at]
            assert (partition.mtro, partition.mxro) == (heard.mtro, heard.mxro)
            assert partition.removable.raised_to(heard.agreed) == partition.removable
            assert self.controller.ledger.known(at).high_watermark == heard.high_watermark
        assert len(self.waiting) == len(self.controller.brokers.parked)


AnyHistory.TestCase.settings = settings(stateful_step_count=60)
TestAnyHistory = AnyHistory.TestCase
