"""A cluster's controller, told as text: see testdata/controller_*.txt.

Brokers of a story heartbeat by themselves, as real ones do, and follow the metadata. What is shown
are the records that the controller wrote, and what it told whoever asked. A broker `by hand` says
nothing but what the story has it say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sexton.base.partitions import TopicPartition
from sexton.machines.controller import (
    AllocateProducerIds,
    AlterConfigs,
    AlterIsr,
    Answer,
    Answers,
    Append,
    Controller,
    ControllerConfig,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    Done,
    Elect,
    Elected,
    Event,
    Failed,
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
    StaleBroker,
    Tick,
    TopicCreated,
    WakeAt,
)
from sexton.machines.controller_events import AnswerBody
from sexton.machines.metadata import (
    BrokerRecord,
    ClusterRecord,
    ConfigRecord,
    CountersRecord,
    Image,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    Removed,
    TopicRecord,
    from_bytes,
    to_bytes,
)
from tests.datadriven import Case, datadriven, run_file


@dataclass(slots=True)
class Broker:
    """A process that follows its controller."""

    node: int
    life: int = 0  # how often it was started
    by_hand: bool = False
    up: bool = True
    waiting: bool = False  # for the answer to its last heartbeat
    calls: int = 0
    broker_epoch: int = -1
    leaving: bool = False
    metadata_end: int = 0
    image: Image = field(default_factory=Image)


class Story:
    def __init__(self) -> None:
        self.now_ms = 0
        self.controller = Controller.load([], 0)
        self.log: dict[bytes, tuple[int, bytes | None]] = {}  # compacted: offset and value by key
        self.brokers: dict[int, Broker] = {}
        self.wake_at: int | None = None
        self.topics = 0
        self.said: list[str] = []

    def run(self, case: Case) -> str:
        self.said = []
        getattr(self, "do_" + case.command.replace("-", "_"))(case)
        self._beat()
        return "\n".join(self.said) or "nothing"

    # ── brokers ──

    def do_start(self, case: Case) -> None:
        """New processes, one after the other; `t-0=LOG_END/MCCO/MXFO` is what one finds on disk.

        Of all other partitions it finds what the controller would like to see.
        """
        for node in map(int, case.words):
            broker = self.brokers.setdefault(node, Broker(node))
            life, by_hand = broker.life + 1, broker.by_hand
            self.brokers[node] = broker = Broker(node, life, by_hand, calls=broker.calls)
            found = tuple(
                self._found(node, at, case.options) for at in self.controller.image.hosted_by(node)
            )
            self._handle(RegisterBroker(broker, node, f"life {life}", found, (f"host{node}",)))
            if not by_hand:
                self._beat()

    def _found(self, node: int, at: TopicPartition, options: dict[str, str]) -> ReplicaState:
        known = self.controller.ledger.known(at)
        text = options.get(str(at), f"{known.high_watermark}/{known.mtro}/{known.mxro}")
        offsets, _, assignment = text.partition("#")
        end, mcco, mxfo = map(int, offsets.split("/"))
        number = int(assignment) if assignment else known.members[node]
        return ReplicaState(at.topic, at.partition, number, end, mcco, mxfo)

    def do_by_hand(self, case: Case) -> None:
        for node in map(int, case.words):
            self.brokers.setdefault(node, Broker(node)).by_hand = True

    def do_silent(self, case: Case) -> None:
        """Dead or cut off: nothing is heard of it."""
        for node in map(int, case.words):
            self.brokers[node].up = False

    def do_resume(self, case: Case) -> None:
        """The same process is heard of again."""
        for node in map(int, case.words):
            self.brokers[node].up, self.brokers[node].waiting = True, False

    def do_leave(self, case: Case) -> None:
        for node in map(int, case.words):
            self.brokers[node].leaving, self.brokers[node].waiting = True, False

    def do_beat(self, case: Case) -> None:
        node = int(case.words[0])
        self._send_beat(
            self.brokers[node], case.number("metadata", -1), case.number("epoch", -1),
            "leaving" in case.words,
        )  # fmt: skip

    def do_again(self, case: Case) -> None:
        """The same process registers once more."""
        broker = self.brokers[int(case.words[0])]
        broker.up = True
        endpoint = case.option("endpoint", f"host{broker.node}")
        event = RegisterBroker(broker, broker.node, f"life {broker.life}", (), (endpoint,))
        self._handle(event)

    def do_high_watermark(self, case: Case) -> None:
        """A leader's next heartbeat says how far it is."""
        at, offset = _at(case.words[0]), int(case.words[1])
        partition = self.controller.image.partitions[at]
        broker = self.brokers[case.number("by", partition.leader)]
        epoch = case.number("epoch", partition.leader_epoch)
        self._send_beat(broker, hw=((at.topic, at.partition, epoch, offset),))

    def do_isr(self, case: Case) -> None:
        at = _at(case.words[0])
        partition = self.controller.image.partitions.get(at)
        leader = case.number("by", partition.leader if partition else None)
        event = AlterIsr(
            "leader", leader, case.number("broker_epoch", self.brokers[leader].broker_epoch),
            at.topic, at.partition,
            case.number("epoch", partition.leader_epoch if partition else 0),
            case.number("partition_epoch", partition.partition_epoch if partition else 0),
            tuple(map(int, case.words[1:])), _numbers(case.option("fetched_in", "")),
        )  # fmt: skip
        self._handle(event)

    def do_propose(self, case: Case) -> None:
        at = _at(case.words[0])
        partition = self.controller.image.partitions[at]
        self._handle(
            ProposeRemovable(
                "leader",
                case.number("by", partition.leader),
                at.topic,
                at.partition,
                case.number("epoch", partition.leader_epoch),
                case.number("mtro", 0),
                case.number("mxro", 0),
            )
        )

    def do_producer_ids(self, case: Case) -> None:
        node = int(case.words[0])
        epoch = case.number("epoch", self.brokers[node].broker_epoch)
        self._handle(AllocateProducerIds(f"broker {node}", node, epoch))

    # ── administrators ──

    def do_create(self, case: Case) -> None:
        self.topics += 1
        name = case.option("name", case.words[0] if case.words else "")
        topic_id = case.option("id", f"id {self.topics}")
        self._handle(
            CreateTopic(
                "admin",
                name,
                topic_id,
                case.number("partitions", -1),
                case.number("replicas", -1),
                _placements(case.options.get("on")),
                _pairs(case.lines),
                "internal" in case.words,
                "validate" in case.words,
            )
        )

    def do_delete(self, case: Case) -> None:
        self._handle(DeleteTopic("admin", case.words[0]))

    def do_grow(self, case: Case) -> None:
        on = _placements(case.options.get("on"))
        validate = "validate" in case.words
        self._handle(
            CreatePartitions("admin", case.words[0], case.number("partitions"), on, validate)
        )

    def do_reassign(self, case: Case) -> None:
        at = _at(case.words[0])
        replicas = tuple(map(int, case.words[1:])) or None
        self._handle(Reassign("admin", at.topic, at.partition, replicas))

    def do_cancel(self, case: Case) -> None:
        self.do_reassign(case)

    def do_elect(self, case: Case) -> None:
        at = _at(case.words[0])
        self._handle(Elect("admin", at.topic, at.partition, "uncleanly" in case.words))

    def do_configure(self, case: Case) -> None:
        resource, *name = case.words
        delete = tuple(line[1:] for line in case.lines if line.startswith("-"))
        options = _pairs([line for line in case.lines if not line.startswith("-")])
        self._handle(AlterConfigs("admin", resource, "".join(name), options, delete))

    # ── the controller itself ──

    def do_wait(self, case: Case) -> None:
        """Time passes; brokers heartbeat, the controller is woken when it asked to be."""
        until = self.now_ms + int(case.words[0])
        while self.wake_at is not None and self.wake_at <= until:
            self.now_ms, self.wake_at = self.wake_at, None
            self._handle(Tick())
            self._beat()
        self.now_ms = until

    def do_sleep(self, case: Case) -> None:
        """Nobody lets the controller run for a while."""
        self.now_ms += int(case.words[0])
        self._handle(Tick())

    def do_controller(self, case: Case) -> None:
        """Stops, and is loaded from its compacted log, perhaps with other options."""
        kept = sorted((offset, key, value) for key, (offset, value) in self.log.items())
        records = [from_bytes(key, value) for _, key, value in kept]
        image, end = self.controller.image, self.controller.ledger.end
        options = {name: int(value) for name, value in case.options.items()}
        config = ControllerConfig(**options)  # type: ignore[arg-type]
        self.controller = Controller.load(records, self.now_ms, config, end)
        assert self.controller.image == image
        self.controller.check()
        self.wake_at = None
        for broker in self.brokers.values():
            broker.waiting = False  # the call broke off
        self._handle(Tick())

    def do_show(self, case: Case) -> None:
        for at, partition in sorted(self.controller.image.partitions.items()):
            if not case.words or str(at) in case.words:
                numbers = " ".join(map(str, partition.assignments))
                self.said.append(f"{_text(partition)}; assignments {numbers}")

    # ── how it is carried out ──

    def _beat(self) -> None:
        """Every broker that can speak heartbeats, until all wait for news."""
        for _ in range(20):
            ready = [
                broker
                for broker in self.brokers.values()
                if broker.up and not broker.waiting and not broker.by_hand
            ]
            if not ready:
                return
            for broker in ready:
                self._send_beat(broker)
        raise AssertionError("the brokers and the controller never come to rest")

    def _send_beat(
        self, broker: Broker, metadata_end: int = -1, epoch: int = -1, leaving: bool = False,
        hw: tuple[tuple[str, int, int, int], ...] = (),
    ) -> None:  # fmt: skip
        broker.waiting = True
        broker.calls += 1
        self._handle(
            Heartbeat(
                (broker, broker.calls),
                broker.node,
                broker.broker_epoch if epoch < 0 else epoch,
                broker.metadata_end if metadata_end < 0 else metadata_end,
                hw,
                leaving or broker.leaving,
            )
        )

    def _handle(self, event: Event) -> None:
        effects = self.controller.handle(event, self.now_ms)
        self.controller.check()
        for effect in effects:
            match effect:
                case Append(records, start):
                    self._append(records, start)
                case Answer(caller, answer):
                    self._answer(caller, answer)
                case WakeAt(ms):
                    assert ms > self.now_ms
                    self.wake_at = ms

    def _append(self, records: tuple[Record, ...], start: int) -> None:
        for offset, record in enumerate(records, start):
            key, value = to_bytes(record)
            assert from_bytes(key, value) == record
            self.log[key] = (offset, value)
            if not isinstance(record, CountersRecord):
                self.said.append(_text(record))

    def _answer(self, caller: object, answer: AnswerBody) -> None:
        match caller, answer:
            case (Broker() as broker, Registered(epoch)):
                broker.broker_epoch = epoch
                if broker.by_hand:
                    self.said.append(f"→ broker {broker.node}: {_answer_text(answer)}")
            case ((Broker() as broker, int(call)), HeartbeatAnswer() | StaleBroker()):
                self._tell(broker, call, answer)
            case _:
                self.said.append(f"→ {caller}: {_answer_text(answer)}")

    def _tell(self, broker: Broker, call: int, answer: HeartbeatAnswer | StaleBroker) -> None:
        if broker.by_hand:
            self.said.append(f"→ broker {broker.node}: {_answer_text(answer)}")
        if call != broker.calls:
            return  # it has given up on that call
        broker.waiting = False
        match answer:
            case StaleBroker():
                broker.up = False
            case HeartbeatAnswer():
                if answer.snapshot:
                    broker.image = Image()
                for record in answer.records:
                    broker.image.apply(record)
                broker.metadata_end = answer.end
                assert broker.image == self.controller.image
                broker.image.check()
                if answer.may_stop:
                    broker.up = False
                    if not broker.by_hand:
                        self.said.append(f"→ broker {broker.node}: you may stop")


def _text(record: Record) -> str:
    match record:
        case BrokerRecord():
            state = "fenced" if record.fenced else "active"
            leaving = " and leaving" if record.in_shutdown else ""
            return f"broker {record.node}, epoch {record.broker_epoch}, is {state}{leaving}"
        case TopicRecord():
            internal = ", internal" if record.internal else ""
            return f"topic {record.name}: {record.topic_id}{internal}"
        case PartitionRecord():
            return _partition_text(record)
        case ConfigRecord(resource, name, options):
            text = ", ".join(f"{key}={value}" for key, value in options)
            return f"options of {resource} {name}: {text}"
        case ProducerIdsRecord(next_id):
            return f"producer ids from {next_id} on are free"
        case Removed(key):
            return "no more: " + " ".join(map(str, key))
        case CountersRecord() | ClusterRecord():
            return str(record)


def _partition_text(record: PartitionRecord) -> str:
    leader = "nobody leads" if record.leader < 0 else f"{record.leader} leads"
    parts = [
        f"{record.at}: {leader} in {record.leader_epoch}.{record.partition_epoch}",
        f"ISR {_spaced(record.isr)} of {_spaced(record.replicas)}",
    ]
    if record.adding:
        parts.append(f"adding {_spaced(record.adding)}")
    if record.removing:
        parts.append(f"removing {_spaced(record.removing)}")
    if record.doubtful:
        parts.append("in doubt")
    if record.lost_in >= 0:
        parts.append(f"lost records in {record.lost_in}")
    if record.high_watermark or record.mtro or record.mxro:
        parts.append(f"HW {record.high_watermark} MTRO {record.mtro} MXRO {record.mxro}")
    return ", ".join(parts)


def _answer_text(answer: AnswerBody) -> str:
    match answer:
        case Registered(epoch):
            return f"registered, epoch {epoch}"
        case StaleBroker():
            return "another registration has replaced yours"
        case HeartbeatAnswer():
            kind = "a snapshot" if answer.snapshot else f"{len(answer.records)} records"
            fenced = "fenced, " if answer.fenced else ""
            stop = ", you may stop" if answer.may_stop else ""
            return f"{fenced}{kind} from {answer.start} to {answer.end}{stop}"
        case IsrAltered(leader, epoch, isr, partition_epoch):
            return f"{leader} leads in {epoch}.{partition_epoch}, ISR {_spaced(isr)}"
        case RemovableKept(mtro, mxro):
            return f"MTRO {mtro}, MXRO {mxro}"
        case ProducerIds(first, count):
            return f"{count} producer ids from {first}"
        case TopicCreated(topic_id, partitions, factor):
            return f"{topic_id} has {partitions} partitions with {factor} replicas each"
        case Elected(leader, epoch):
            return f"{leader} leads in {epoch}"
        case Done():
            return "done"
        case Failed(error, message):
            return f"{error.name}: {message}"
        case Answers(answers, end):
            return "; ".join(map(_answer_text, answers)) + f", known at {end}"


def _spaced(nodes: tuple[int, ...]) -> str:
    return " ".join(map(str, nodes))


def _at(text: str) -> TopicPartition:
    return TopicPartition.from_directory(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def _placements(text: str | None) -> tuple[tuple[int, ...], ...] | None:
    return None if text is None else tuple(_numbers(part) for part in text.split(";"))


def _pairs(lines: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, _, value in (line.partition("=") for line in lines))


@datadriven(__file__, "testdata/controller_*.txt")
def test_controller(path: Path) -> None:
    run_file(path, Story().run)
