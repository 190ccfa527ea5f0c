"""Who is there, who holds what, who leads: one machine decides, and writes it down first.

    RegisterBroker, Heartbeat ─▶ brokers         who is alive, and what each has heard
    AlterIsr, Elect           ─▶ elections       who leads, and what was lost by it
    Reassign                  ─▶ reassignment    who holds a replica
    CreateTopic, DeleteTopic  ─▶ topics          what there is
    AlterConfigs              ─▶ options         how it is to behave
    ProposeRemovable          ─▶ here            what a group may forget
              all of them     ─▶ ledger          the records that say so

Each step is decided at once and becomes one `Append`; answers come after it. So a controller that
dies at any moment and is loaded from its log has told nobody anything it does not know. It is the
only one of its cluster, and therefore needs no elections of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines import options, topics
from sexton.machines.brokers import Brokers
from sexton.machines.compaction import NodeId, Removable
from sexton.machines.controller_events import (
    AllocateProducerIds,
    AlterConfigs,
    AlterIsr,
    Answer,
    AnswerBody,
    Answers,
    Append,
    ControllerConfig,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    Done,
    Effect,
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
    Request,
    Several,
    StaleBroker,
    Tick,
    TopicCreated,
    UnregisterBroker,
    WakeAt,
)
from sexton.machines.ledger import UNCLEAN, Ledger
from sexton.machines.metadata import (
    NO_LEADER,
    ClusterRecord,
    Image,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
)
from sexton.machines.reassignment import cancelled, newcomers, towards

__all__ = [
    "AllocateProducerIds", "AlterConfigs", "AlterIsr", "Answer", "Answers", "Append", "Controller",
    "ControllerConfig", "CreatePartitions", "CreateTopic", "DeleteTopic", "Done", "Effect", "Elect",
    "Elected", "Event", "Failed", "Heartbeat", "HeartbeatAnswer", "IsrAltered", "ProducerIds",
    "ProposeRemovable", "Reassign", "RegisterBroker", "Registered", "RemovableKept", "ReplicaState",
    "Several", "StaleBroker", "Tick", "TopicCreated", "UnregisterBroker", "WakeAt",
]  # fmt: skip


@dataclass(slots=True)
class Controller:
    ledger: Ledger
    brokers: Brokers
    rules: options.Rules
    checkpoint_at: int | None = None  # when high watermarks go to the log, if there are new ones
    rebalance_at: int | None = None  # when preferred leaders are elected, if ever
    look_at: int | None = None  # when it notices that it was away, however long sessions are
    wake_at: int | None = None

    @classmethod
    def load(
        cls,
        records: Iterable[Record],
        now_ms: int,
        config: ControllerConfig | None = None,
        log_end: int | None = None,
        rules: options.Rules | None = None,
    ) -> Controller:
        """The controller that wrote `records`, or a new one if there are none.

        `log_end` is the offset after the last record; compaction leaves fewer records than that.
        Hand it a `Tick` first: the answer says when to wake it. `rules` know the options.
        """
        image, count = Image(), 0
        for record in records:
            image.apply(record)
            count += 1
        ledger = Ledger(config or ControllerConfig(), image, count if log_end is None else log_end)
        brokers = Brokers(ledger)
        brokers.start(now_ms)
        return cls(ledger, brokers, rules or options.Rules())

    @property
    def image(self) -> Image:
        return self.ledger.image

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """One step. `now_ms` is a clock that does not go back."""
        start = self.ledger.end
        self._forgive_own_absence(now_ms)
        answers: list[Answer] = []
        match event:
            case Tick():
                pass
            case RegisterBroker():
                answers = self.brokers.register(event)
            case Heartbeat():
                answers = self.brokers.heartbeat(event, now_ms)
            case Several(caller, requests):
                told = tuple(map(self._carry_out, requests))
                answers = [Answer(caller, Answers(told, self.ledger.end))]
            case _:
                answers = [Answer(event.caller, self._carry_out(event))]
        self._tick(now_ms)
        answers += self.brokers.release(now_ms)
        written, self.ledger.batch = tuple(self.ledger.batch), []
        appended = [Append(written, start)] if written else []
        return [*appended, *answers, *self._alarm(now_ms)]

    def _carry_out(self, event: Request) -> AnswerBody:
        """What is refused has changed nothing."""
        written = len(self.ledger.batch)
        try:
            return self._decide(event)
        except Refused as refused:
            assert len(self.ledger.batch) == written
            return Failed(refused.error, refused.why)

    def _decide(self, event: Request) -> AnswerBody:
        match event:
            case AlterIsr():
                return self._alter_isr(event)
            case ProposeRemovable():
                return self._propose(event)
            case AllocateProducerIds():
                return self._allocate(event)
            case CreateTopic():
                topics.check_name(self.image, event.name)
                self.rules.check("topic", dict(event.configs))
                return topics.create(self.ledger, event)
            case CreatePartitions():
                topics.create_partitions(self.ledger, event)
            case DeleteTopic():
                topics.delete(self.ledger, event.name, event.topic_id)
            case Reassign():
                self._reassign(event)
            case Elect():
                return self._elect(event)
            case AlterConfigs():
                self._alter_configs(event)
            case UnregisterBroker():
                self.brokers.unregister(event.node)
            case _:
                assert_never(event)
        return Done()

    # ── time ──

    def _tick(self, now_ms: int) -> None:
        expired = self.brokers.expired(now_ms)
        if expired:
            self.brokers.fence(expired)
        if self.checkpoint_at is not None and self.checkpoint_at <= now_ms:
            self.ledger.checkpoint()
        self._rebalance(now_ms)
        if self.ledger.config.cluster_id and not self.image.cluster.cluster_id:
            self.ledger.write(ClusterRecord(self.ledger.config.cluster_id))

    def _rebalance(self, now_ms: int) -> None:
        """Every now and then, whoever is preferred and could lead does so."""
        config = self.ledger.config
        if not config.auto_leader_rebalance_enable:
            return
        if self.rebalance_at is not None and self.rebalance_at <= now_ms:
            for at in sorted(self.image.partitions):
                partition = self.ledger.known(at)
                if partition.leader not in (NO_LEADER, partition.replicas[0]):
                    self.ledger.change(partition, partition, preferred=True)
            self.rebalance_at = None
        if self.rebalance_at is None:
            self.rebalance_at = now_ms + config.leader_imbalance_check_interval_seconds * 1000

    def _forgive_own_absence(self, now_ms: int) -> None:
        """If nobody called for longer than brokers wait, it was not they who were silent.

        While there are sessions it wants to be woken once in a heartbeat's interval. Else it could
        sleep through a whole session and take that for the brokers' silence.
        """
        late = 0 if self.wake_at is None else now_ms - self.wake_at
        if late > self.ledger.config.broker_heartbeat_interval_ms:
            self.brokers.forgive(late)

    def _alarm(self, now_ms: int) -> list[Effect]:
        """When to be woken, if that has changed."""
        if not self.ledger.heard:
            self.checkpoint_at = None
        elif self.checkpoint_at is None:
            interval = self.ledger.config.replica_high_watermark_checkpoint_interval_ms
            self.checkpoint_at = now_ms + interval
        if not self.brokers.sessions:
            self.look_at = None
        elif self.look_at is None or self.look_at <= now_ms:
            self.look_at = now_ms + self.ledger.config.broker_heartbeat_interval_ms
        times = self.brokers.deadlines()
        own = (self.checkpoint_at, self.rebalance_at, self.look_at)
        times += [at for at in own if at is not None]
        before, self.wake_at = self.wake_at, min(times, default=None)
        if self.wake_at is None or self.wake_at == before:
            return []
        return [WakeAt(self.wake_at)]

    # ── partitions ──

    def _alter_isr(self, event: AlterIsr) -> AnswerBody:
        """Kafka's AlterPartition: the leader alone says who is in sync, in its own term."""
        self._check_broker(event.node, event.broker_epoch)
        old = self.ledger.existing(event.topic, event.partition)
        _check_leader(old, event.node, event.leader_epoch)
        if event.partition_epoch != old.partition_epoch:
            ahead = event.partition_epoch > old.partition_epoch
            raise Refused(
                KafkaError.NOT_CONTROLLER if ahead else KafkaError.INVALID_UPDATE_VERSION,
                f"the partition epoch of {old.at} is {old.partition_epoch}, not "
                f"{event.partition_epoch}; wait for the metadata and ask again",
            )
        ineligible = self._check_isr(old, event)
        if ineligible is not None:
            if event.again:
                # The leader does not wait for them any more. The copy of this request that got no
                # answer may come when they are eligible again: by then it is of an older epoch.
                self.ledger.write_partition(replace(old, partition_epoch=old.partition_epoch + 1))
            return Failed(KafkaError.INELIGIBLE_REPLICA, ineligible)
        isr = tuple(node for node in old.replicas if node in event.isr)
        new = self.ledger.change(old, replace(old, isr=isr))
        if new.leader != event.node:
            return Failed(
                KafkaError.NEW_LEADER_ELECTED,
                f"this completed the reassignment of {old.at}, which is led by {new.leader} now",
            )
        return IsrAltered(new.leader, new.leader_epoch, new.isr, new.partition_epoch)

    def _check_isr(self, old: PartitionRecord, event: AlterIsr) -> str | None:
        """Who cannot join, and why; Refused if it makes no sense."""
        if event.node not in event.isr or len(dict.fromkeys(event.isr)) != len(event.isr):
            raise Refused(
                KafkaError.INVALID_REQUEST,
                f"the ISR of {old.at} has its leader {event.node} in it, and nobody twice",
            )
        if event.broker_epochs and len(event.broker_epochs) != len(event.isr):
            raise Refused(KafkaError.INVALID_REQUEST, "one broker epoch for each ISR member")
        epochs = event.broker_epochs or (-1,) * len(event.isr)
        for node, epoch in zip(event.isr, epochs, strict=True):
            if node not in old.replicas:
                raise Refused(KafkaError.INVALID_REQUEST, f"{node} is no replica of {old.at}")
            if not self.image.active(node):
                why = "is fenced or about to leave"
            elif epoch not in (-1, self.image.brokers[node].broker_epoch):
                why = "has started again since it fetched"
            else:
                continue
            return (
                f"broker {node} {why} and cannot join the ISR of {old.at} yet; "
                "ask again when it has caught up"
            )
        return None

    def _propose(self, event: ProposeRemovable) -> RemovableKept:
        old = self.ledger.existing(event.topic, event.partition)
        _check_leader(old, event.node, event.leader_epoch)
        raised = old.removable.raised_to(Removable(event.mtro, event.mxro))
        # Nobody cleans above the high watermark. That it is at least here is written down, too: a
        # lower one that comes late would void what the group relies on (`Ledger.hear`).
        relied_on = max(event.mtro, event.mxro)
        if raised != old.removable or relied_on > self.image.partitions[old.at].high_watermark:
            offset = max(old.high_watermark, relied_on)
            self.ledger.write_partition(
                replace(old, high_watermark=offset, mtro=raised.mtro, mxro=raised.mxro)
            )
        return RemovableKept(raised.mtro, raised.mxro)

    def _reassign(self, event: Reassign) -> None:
        old = self.ledger.existing(event.topic, event.partition)
        if event.replicas is None:
            if not old.reassigning:
                raise Refused(
                    KafkaError.NO_REASSIGNMENT_IN_PROGRESS,
                    f"{old.at} is not being reassigned; there is nothing to cancel",
                )
            draft, added = cancelled(old), 0
        else:
            topics.check_replicas(self.image, event.replicas, event.partition)
            topics.check_factor(old, event)
            draft = towards(old, event.replicas, self.image.counters.next_assignment)
            added = newcomers(old, event.replicas)
        if old.doubtful and any(node not in draft.replicas for node in old.replicas):
            raise Refused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                f"{old.at} is in doubt, and who would be dropped may hold what it lost; "
                "bring back the right disk, or hold an unclean election first",
            )
        if added:
            counters = self.image.counters
            self.ledger.write(replace(counters, next_assignment=counters.next_assignment + added))
        self.ledger.change(old, draft)

    def _elect(self, event: Elect) -> Elected:
        old = self.ledger.existing(event.topic, event.partition)
        needless = old.leader != NO_LEADER if event.unclean else old.leader == old.replicas[0]
        if needless:
            raise Refused(
                KafkaError.ELECTION_NOT_NEEDED, f"{old.at} is led by {old.leader} already"
            )
        new = self.ledger.change(old, old, unclean=event.unclean, preferred=not event.unclean)
        if event.unclean and new.leader == NO_LEADER:
            raise Refused(
                KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"no broker with a replica of {old.at} is alive; start one of "
                + ", ".join(map(str, old.replicas)),
            )
        if not event.unclean and new.leader != old.replicas[0]:
            raise Refused(
                KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
                f"the preferred leader {old.replicas[0]} of {old.at} is not alive and in sync; "
                "wait until it is",
            )
        return Elected(new.leader, new.leader_epoch)

    # ── the rest ──

    def _allocate(self, event: AllocateProducerIds) -> ProducerIds:
        self._check_broker(event.node, event.broker_epoch)
        first, count = self.image.producer_ids.next_id, self.ledger.config.producer_ids_per_block
        self.ledger.write(ProducerIdsRecord(first + count))
        return ProducerIds(first, count)

    def _alter_configs(self, event: AlterConfigs) -> None:
        changed = options.alter(self.ledger, event, self.rules)
        if UNCLEAN in changed:
            self._elect_where_allowed(event)
        if options.POLICY in changed and event.resource == "topic":
            for number in sorted(self.image.partitions_of(event.name)):
                self._begin_term(self.ledger.known(TopicPartition(event.name, number)))

    def _begin_term(self, old: PartitionRecord) -> None:
        """The same leader, if there is one, in a new term, for another policy holds in it.

        While each replica cleaned as it liked, tombstones and markers went, and nobody noted which.
        Who is not in sync may have missed them: unless that goes on, it starts over.
        """
        if old.leader == NO_LEADER:
            return
        new = replace(
            old, leader_epoch=old.leader_epoch + 1, partition_epoch=old.partition_epoch + 1
        )
        if not options.is_independent(self.image, old.topic):
            new = self._numbered_anew(new)
        self.ledger.write_partition(new)

    def _numbered_anew(self, partition: PartitionRecord) -> PartitionRecord:
        """With new assignments for those who are not in sync: what log they have does not count."""
        counters = self.image.counters
        first = counters.next_assignment
        away = [node for node in partition.replicas if node not in partition.isr]
        if not away:
            return partition
        self.ledger.write(replace(counters, next_assignment=first + len(away)))
        numbers = partition.members | {node: first + at for at, node in enumerate(away)}
        return replace(partition, assignments=tuple(numbers[node] for node in partition.replicas))

    def _elect_where_allowed(self, event: AlterConfigs) -> None:
        """Partitions that wait for a leader may have one now that records may be lost."""
        of_topic = self.image.partitions_of(event.name).values()
        touched = of_topic if event.resource == "topic" else self.image.partitions.values()
        for at in sorted(partition.at for partition in touched if partition.leader == NO_LEADER):
            partition = self.ledger.known(at)
            self.ledger.change(partition, partition)

    def _check_broker(self, node: NodeId, broker_epoch: int) -> None:
        if not self.brokers.knows_epoch(node, broker_epoch):
            raise Refused(
                KafkaError.STALE_BROKER_EPOCH,
                f"broker {node} is not registered with epoch {broker_epoch}; register again",
            )

    def check(self) -> None:
        """The invariants; for tests and the simulator, for it looks at everything."""
        self.image.check()
        self.brokers.check()
        for partition in self.image.partitions.values():
            self._check_partition(partition)
        assert not self.ledger.batch
        assert (self.checkpoint_at is not None) == bool(self.ledger.heard)

    def _check_partition(self, partition: PartitionRecord) -> None:
        image, electable = self.image, [*filter(self.image.active, partition.isr)]
        if len(partition.isr) > 1:
            assert electable == list(partition.isr), (
                f"who is not active leaves the ISR: {partition}"
            )
        if partition.leader != NO_LEADER:
            assert partition.leader in electable, f"its leader is not alive: {partition}"
        else:
            assert not electable or partition.doubtful, f"somebody could lead: {partition}"
            if self.ledger.may_lose(partition.topic) or len(partition.replicas) == 1:
                assert not any(map(image.active, partition.replicas)), f"may lose: {partition}"
        for node in partition.replicas:
            assert node in image.brokers, f"no such broker: {partition}"
        offset = self.ledger.heard.get(partition.at)
        assert offset is None or offset > partition.high_watermark


def _check_leader(partition: PartitionRecord, node: NodeId, leader_epoch: int) -> None:
    if leader_epoch != partition.leader_epoch:
        ahead = leader_epoch > partition.leader_epoch
        raise Refused(
            KafkaError.NOT_CONTROLLER if ahead else KafkaError.FENCED_LEADER_EPOCH,
            f"the leader epoch of {partition.at} is {partition.leader_epoch}, not {leader_epoch}; "
            "wait for the metadata",
        )
    if node != partition.leader:
        raise Refused(
            KafkaError.INVALID_REQUEST,
            f"{partition.at} is led by {partition.leader}, not by {node}; wait for the metadata",
        )
