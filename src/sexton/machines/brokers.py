"""Which brokers are there?

    RegisterBroker ─▶ fenced ──heartbeat, caught up──▶ active ──leaving──▶ in shutdown
                        ▲ ▲                              │                     │
                        │ └──silent for a session───────┴─────────────────────┤
                        └──others know: it may stop────────────────────────────┘

A fenced broker leads nothing and is in no ISR but those it is the last of. It becomes active once
it heartbeats and has all metadata up to where it was fenced, so that it knows what it no longer
leads. A heartbeat is also how brokers follow the metadata: it waits here until there is news.

A new process starts fenced and out of the ISR, whatever its predecessor was: nobody knows what that
one left on the disk. Where it is the last of an ISR there is no better copy, so it stays, and what
it found on its disk is judged by what the controller has heard of (see `elections`).
"""

from __future__ import annotations

from dataclasses import field, replace

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines.compaction import NodeId
from sexton.machines.controller_events import (
    Answer,
    Caller,
    Failed,
    Heartbeat,
    HeartbeatAnswer,
    RegisterBroker,
    Registered,
    ReplicaState,
    StaleBroker,
)
from sexton.machines.elections import is_fit
from sexton.machines.ledger import Ledger
from sexton.machines.metadata import BrokerRecord, PartitionRecord, Removed
from sexton.machines.options import is_independent


@dataclass(frozen=True, slots=True)
class Parked:
    """A heartbeat that waits for something new."""

    caller: Caller
    metadata_end: int
    until_ms: int


@dataclass(slots=True)
class Brokers:
    """Nothing here survives a restart: brokers are given time to call again."""

    ledger: Ledger
    sessions: dict[NodeId, int] = field(default_factory=dict)  # who is not fenced, and until when
    knows: dict[NodeId, int] = field(default_factory=dict)  # metadata, by its last heartbeat
    must_know: dict[NodeId, int] = field(default_factory=dict)  # to be unfenced, or before it stops
    parked: dict[NodeId, Parked] = field(default_factory=dict)

    def start(self, now_ms: int) -> None:
        """The controller was away: that alone is no reason to fence anybody."""
        for node, broker in sorted(self.ledger.image.brokers.items()):
            self.must_know[node] = self.ledger.end
            if not broker.fenced:
                self.sessions[node] = now_ms + self.ledger.config.broker_session_timeout_ms

    def forgive(self, late_ms: int) -> None:
        """So it is if nobody let the controller run for a while."""
        for node in self.sessions:
            self.sessions[node] += late_ms

    def knows_epoch(self, node: NodeId, broker_epoch: int) -> bool:
        broker = self.ledger.image.brokers.get(node)
        return broker is not None and broker.broker_epoch == broker_epoch

    # ── registration ──

    def register(self, event: RegisterBroker) -> list[Answer]:
        """Asking twice is asking once."""
        if event.node < 0:
            why = f"a broker's node.id is 0 or more, not {event.node}"
            return [Answer(event.caller, Failed(KafkaError.INVALID_REQUEST, why))]
        known = self.ledger.image.brokers.get(event.node)
        if known is not None and known.incarnation == event.incarnation:
            again = replace(known, endpoint=event.endpoint, rack=event.rack)
            if again != known:
                self.ledger.write(again)
            return [Answer(event.caller, Registered(known.broker_epoch))]
        predecessor = self.parked.pop(event.node, None)
        answers = [Answer(predecessor.caller, StaleBroker())] if predecessor else []
        counters = self.ledger.image.counters
        epoch = counters.next_broker_epoch
        self.ledger.write(replace(counters, next_broker_epoch=epoch + 1))
        self.ledger.write(
            BrokerRecord(
                event.node, event.incarnation, epoch, endpoint=event.endpoint, rack=event.rack
            )
        )
        self.sessions.pop(event.node, None)
        logs = {(each.topic, each.partition, each.assignment): each for each in event.replicas}
        for at in self.ledger.image.hosted_by(event.node):
            partition = self.ledger.known(at)
            number = partition.members[event.node]
            nothing = ReplicaState(*at, number, log_end=0, mcco=0, mxfo=0)
            found = logs.get((*at, number), nothing)  # one of another assignment is not its log
            if partition.isr == (event.node,):
                independent = is_independent(self.ledger.image, partition.topic)
                unfit = not is_fit(partition, found, independent=independent)
                self.ledger.change(partition, replace(partition, doubtful=unfit))
            else:
                self._leave_isr(partition, event.node)
            self.ledger.find(event.node, found)
        self.must_know[event.node] = self.ledger.end
        return [*answers, Answer(event.caller, Registered(epoch))]

    # ── heartbeats ──

    def heartbeat(self, event: Heartbeat, now_ms: int) -> list[Answer]:
        """What can be answered now; the rest is answered by `release`."""
        if not self.knows_epoch(event.node, event.broker_epoch):
            return [Answer(event.caller, StaleBroker())]
        answers = self._answer_parked(event.node)  # it has given up on that one
        if event.metadata_end <= self.ledger.end:
            self.knows[event.node] = event.metadata_end
        if event.node in self.sessions:
            self.sessions[event.node] = now_ms + self.ledger.config.broker_session_timeout_ms
        for topic, partition, leader_epoch, offset in event.high_watermarks:
            at = TopicPartition(topic, partition)
            self.ledger.hear(event.node, leader_epoch, at, offset)
        broker = self.ledger.image.brokers[event.node]
        if event.leaving and not broker.in_shutdown:
            self._begin_shutdown(broker)
        elif broker.fenced and not broker.in_shutdown and self._caught_up(event.node):
            self._unfence(broker, now_ms)
        until = now_ms + self.ledger.config.broker_heartbeat_interval_ms
        self.parked[event.node] = Parked(event.caller, event.metadata_end, until)
        return answers

    def release(self, now_ms: int) -> list[Answer]:
        """Answers every heartbeat for which there is news, or no more time."""
        for node in sorted(self.parked):
            if self._may_stop(node) and not self.ledger.image.brokers[node].fenced:
                self.fence([node])
        ready = [
            node
            for node, parked in sorted(self.parked.items())
            if parked.metadata_end != self.ledger.end
            or parked.until_ms <= now_ms
            or self._may_stop(node)
        ]
        return [answer for node in ready for answer in self._answer_parked(node)]

    def _answer_parked(self, node: NodeId) -> list[Answer]:
        parked = self.parked.pop(node, None)
        if parked is None:
            return []
        broker = self.ledger.image.brokers[node]
        start, records, snapshot = self.ledger.since(parked.metadata_end)
        answer = HeartbeatAnswer(
            broker.fenced, start, records, self.ledger.end, snapshot, self._may_stop(node)
        )
        return [Answer(parked.caller, answer)]

    def _caught_up(self, node: NodeId) -> bool:
        return self.knows.get(node, 0) >= self.must_know[node]

    # ── coming and going ──

    def expired(self, now_ms: int) -> list[NodeId]:
        """Who has been silent for a session, longest first."""
        late = [(until, node) for node, until in self.sessions.items() if until <= now_ms]
        return [node for _, node in sorted(late)]

    def deadlines(self) -> list[int]:
        """When something is due here."""
        return [*self.sessions.values(), *(parked.until_ms for parked in self.parked.values())]

    def fence(self, nodes: list[NodeId]) -> None:
        """They are gone together: none of them is elected in another's place."""
        for node in nodes:
            self.sessions.pop(node, None)
            self.ledger.write(replace(self.ledger.image.brokers[node], fenced=True))
        for node in nodes:
            self._leave_isrs(node)
            if not self.ledger.image.brokers[node].in_shutdown:
                self.must_know[node] = self.ledger.end

    def _unfence(self, broker: BrokerRecord, now_ms: int) -> None:
        self.ledger.write(replace(broker, fenced=False))
        self.sessions[broker.node] = now_ms + self.ledger.config.broker_session_timeout_ms
        for at in self.ledger.image.hosted_by(broker.node):
            partition = self.ledger.known(at)
            if partition.leader < 0:
                self.ledger.change(partition, partition)

    def _begin_shutdown(self, broker: BrokerRecord) -> None:
        self.ledger.write(replace(broker, in_shutdown=True))
        self._leave_isrs(broker.node)
        self.must_know[broker.node] = self.ledger.end

    def _may_stop(self, node: NodeId) -> bool:
        """Does everyone who is not fenced know what it no longer leads?"""
        if not self.ledger.image.brokers[node].in_shutdown:
            return False
        return all(self.knows.get(each, 0) >= self.must_know[node] for each in self.sessions)

    def _leave_isrs(self, node: NodeId) -> None:
        for at in self.ledger.image.hosted_by(node):
            self._leave_isr(self.ledger.known(at), node)

    def _leave_isr(self, partition: PartitionRecord, node: NodeId) -> None:
        """The last member stays: nobody else is known to hold everything."""
        if node in partition.isr:
            others = tuple(each for each in partition.isr if each != node)
            self.ledger.change(partition, replace(partition, isr=others or partition.isr))

    def unregister(self, node: NodeId) -> None:
        """It is not coming back; what it held stays assigned to it until it is reassigned."""
        broker = self.ledger.image.brokers.get(node)
        if broker is None:
            raise Refused(
                KafkaError.BROKER_ID_NOT_REGISTERED, f"there is no broker {node} to unregister"
            )
        hosted = self.ledger.image.hosted_by(node)
        if hosted:
            raise Refused(
                KafkaError.INVALID_REQUEST,
                f"broker {node} holds replicas of {len(hosted)} partitions, as of {hosted[0]}; "
                "reassign them first",
            )
        if not broker.fenced:
            raise Refused(
                KafkaError.INVALID_REQUEST, f"broker {node} is alive; stop it before you do this"
            )
        self.parked.pop(node, None)
        self.must_know.pop(node, None)
        self.knows.pop(node, None)
        self.ledger.write(Removed(broker.key))

    def check(self) -> None:
        brokers = self.ledger.image.brokers
        assert sorted(self.sessions) == sorted(n for n, b in brokers.items() if not b.fenced)
        assert sorted(self.must_know) == sorted(brokers)
        for node, parked in self.parked.items():
            assert node in brokers and parked.metadata_end == self.ledger.end
        for known in (*self.must_know.values(), *self.knows.values()):
            assert known <= self.ledger.end
