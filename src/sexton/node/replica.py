"""One partition's replica on this broker: its log, and what it is doing with it.

    Leading     takes writes, answers fetches, keeps the high watermark and the ISR
    Following   copies a leader's log; `fetcher` does the asking
    Resting     nobody leads, or this broker has not heard who

What the controller's record says decides which. A change of role begins with a clean slate: callers
that wait for an acknowledgement are told that this is not the leader any more.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import field, replace

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.log.checkpoints import EpochStart
from sexton.log.cleanable import LogCleaning
from sexton.log.partition import Appended, PartitionLog
from sexton.machines import compaction, replication
from sexton.machines import controller_events as controller
from sexton.machines.markers import Markers
from sexton.machines.metadata import PartitionRecord
from sexton.node.compaction_file import keep
from sexton.node.site import Site
from sexton.protocol.wire import Buffer

Acknowledged = Callable[[KafkaError], None]
RETRY_ISR_MS = 1_000
_NOT_DONE = (KafkaError.INELIGIBLE_REPLICA,)


@dataclass(slots=True, eq=False)
class Leading:
    replication: replication.Leader
    compaction: compaction.Leader | None  # None: each replica cleans as it likes
    markers: Markers
    waiting: list[tuple[int, int, Acknowledged]] = field(default_factory=list)  # a heap by offset
    collect_at_ms: int = 0


@dataclass(slots=True, eq=False)
class Following:
    leader: int
    leader_epoch: int
    may_fetch: bool  # the leader has accepted this log, or does not care
    register: compaction.Register | None = None  # to be sent before that
    epochs: tuple[EpochStart, ...] = ()  # that the leader knew of when it answered


@dataclass(slots=True, eq=False)
class Resting:
    pass


Role = Leading | Following | Resting


@dataclass(slots=True, eq=False)
class Replica:
    site: Site
    partition: TopicPartition
    log: PartitionLog
    state: compaction.Follower  # what it keeps about compaction, whoever leads
    record: PartitionRecord
    role: Role = field(default_factory=Resting)
    cleaning: LogCleaning = field(default_factory=LogCleaning)
    watchers: dict[Hashable, Callable[[], None]] = field(default_factory=dict)  # fetch sessions
    tell: Tell = lambda _replica, _message: None
    told: int = -1  # the high watermark that the controller has heard of
    _count: int = 0

    @property
    def coordinated(self) -> bool:
        return self.log.config.compaction_policy == "coordinated"

    @property
    def leader_epoch(self) -> int:
        return self.record.leader_epoch

    # ── changing roles ──

    def obey(self, record: PartitionRecord) -> None:
        """What the controller says now. Safe to call with a record it has heard before."""
        before, self.record = self.record, record
        same_term = before.leader_epoch == record.leader_epoch and before.leader == record.leader
        if isinstance(self.role, Leading) and same_term:
            self._members_changed(self.role, record)
        elif record.leader == self.site.node:
            self._lead(record)
        elif record.leader < 0:
            self._change_role(Resting())
        elif (
            not isinstance(self.role, Following)
            or not same_term
            or self.assignment != self.state.assignment
        ):
            self._follow(record)

    @property
    def assignment(self) -> int:
        """The number of this broker's assignment to the partition; -1 if there is none."""
        return self.record.members.get(self.site.node, -1)

    def _lead(self, record: PartitionRecord) -> None:
        self._remember_term()
        if self.assignment != self.state.assignment:
            self._start_over()  # a new topic, in the place of a deleted one
        log, site, term = self.log, self.site, record.leader_epoch
        log.begin_epoch(term)
        leader = replication.Leader(
            site.node, _membership(record), log.end_offset, log.high_watermark, site.clock_ms,
            site.config.replica_lag_time_max_ms,
        )  # fmt: skip
        talk: compaction.Leader | None = None
        if self.coordinated:
            talk = compaction.Leader(
                site.node, term, record.members, self.state.progress, self.state.removable,
                record.lost_in, self.state.began_in,
            )  # fmt: skip
        self.state.term, self.state.accepted = term, False
        self.told = -1  # after a loss the controller starts from zero
        role = Leading(leader, talk, Markers(term), collect_at_ms=site.clock_ms)
        if isinstance(self.role, Leading):
            role.waiting, self.role.waiting = self.role.waiting, []  # nothing is lost for them
        self._change_role(role)
        if talk is not None:
            self.compaction_effects(role, talk.start(log.end_offset, record.removable))
        self.replication_effects(role, leader.start())

    def _follow(self, record: PartitionRecord) -> None:
        term, leader = record.leader_epoch, record.leader
        self._change_role(Following(leader, term, may_fetch=not self.coordinated))
        if self.coordinated:
            self.register()
            return
        self.state.term = term
        if self.assignment != self.state.assignment:
            self._start_over()

    def _start_over(self) -> None:
        """Nothing on this disk belongs to the assignment."""
        self.discard()
        session = self.state.session
        self.state = compaction.Follower(self.site.node, assignment=self.assignment)
        self.state.term, self.state.session = self.record.leader_epoch, session
        self._keep(compaction.Persist(compaction.Progress(), compaction.Removable(), -1))

    def register(self) -> None:
        """Asks the leader (anew) whether this log may be filled from its own."""
        role = self.role
        if isinstance(role, Following) and self.coordinated:
            role.may_fetch = False
            follow = compaction.Follow(role.leader_epoch, role.leader, self.assignment)
            self.follower_effects(self.state.handle(follow))

    def _change_role(self, role: Role) -> None:
        self._remember_term()
        old, self.role = self.role, role
        if isinstance(old, Leading):
            for _offset, _number, acknowledged in sorted(old.waiting, key=lambda w: w[:2]):
                acknowledged(KafkaError.NOT_LEADER_OR_FOLLOWER)
        self.notify()

    def _remember_term(self) -> None:
        """What was agreed on while leading holds in the next role, too."""
        if isinstance(self.role, Leading) and self.role.compaction is not None:
            talk = self.role.compaction
            self.state.progress, self.state.removable = talk.progress, talk.removable
            self.state.began_in = talk.began_in

    def retire(self) -> None:
        """This broker has no replica of the partition any more."""
        self._change_role(Resting())

    def _members_changed(self, role: Leading, record: PartitionRecord) -> None:
        talk = role.compaction
        if talk is not None and talk.members != record.members:
            changed = compaction.MembersChanged(record.members)
            self.compaction_effects(role, talk.handle(changed))
        changes = role.replication.changed(_membership(record), self.site.clock_ms)
        self.replication_effects(role, changes)

    # ── writing, as the leader ──

    def append(self, batch: Buffer, *, waits: bool = True, client: bool = True) -> Appended:
        """Appends a batch or raises Refused; `acknowledge` says when the ISR has it."""
        role = self.role
        if not isinstance(role, Leading):
            raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER, f"{self.partition} is led elsewhere")
        least = self.site.min_insync_replicas(self.partition)
        if waits and self.in_sync < least:
            why = f"{self.in_sync} replicas are in sync, min.insync.replicas is {least}"
            raise Refused(KafkaError.NOT_ENOUGH_REPLICAS, f"{self.partition}: {why}")
        done = self.log.append_as_leader(
            batch, self.leader_epoch, self.site.now_ms, from_client=client
        )
        if not done.repeat:
            changes = role.replication.appended(self.log.end_offset)
            self.replication_effects(role, changes)
            self.notify()
        return done

    @property
    def in_sync(self) -> int:
        return len(self.role.replication.membership.isr) if isinstance(self.role, Leading) else 0

    def acknowledge(self, offset: int, acknowledged: Acknowledged) -> None:
        """Calls back once the record at `offset` is below the high watermark, perhaps at once."""
        role = self.role
        if not isinstance(role, Leading):
            acknowledged(KafkaError.NOT_LEADER_OR_FOLLOWER)
            return
        if offset < self.log.high_watermark:
            acknowledged(KafkaError.NONE)
            return
        self._count += 1
        heapq.heappush(role.waiting, (offset, self._count, acknowledged))

    def _acknowledge_all(self, role: Leading) -> None:
        while role.waiting and role.waiting[0][0] < self.log.high_watermark:
            heapq.heappop(role.waiting)[2](KafkaError.NONE)

    # ── what the machines want done ──

    def replication_effects(self, role: Leading, effects: list[replication.Effect]) -> None:
        for effect in effects:
            match effect:
                case replication.Advance(high_watermark):
                    self.log.advance_high_watermark(high_watermark)
                    self.notify()
                    self._acknowledge_all(role)
                case replication.AlterIsr():
                    self._alter_isr(role, effect)

    def _alter_isr(
        self, role: Leading, wanted: replication.AlterIsr, *, again: bool = False
    ) -> None:
        request = controller.AlterIsr(
            None, self.site.node, self.site.broker_epoch, self.partition.topic,
            self.partition.partition, wanted.leader_epoch, wanted.partition_epoch, wanted.isr,
            wanted.broker_epochs, again,
        )  # fmt: skip

        def then(answer: object | None) -> None:
            if self.role is not role:
                return
            if isinstance(answer, controller.IsrAltered):
                self._isr_is(role, answer)
            elif isinstance(answer, controller.Failed) and answer.error in _NOT_DONE:
                self.replication_effects(role, role.replication.refused(wanted))
            else:
                # It may have been done all the same: the worst is assumed until the record comes.
                self.site.outside.after(RETRY_ISR_MS, lambda: self._ask_again(role, wanted))

        self.site.ask_controller(request, then)

    def _isr_is(self, role: Leading, answer: controller.IsrAltered) -> None:
        known = role.replication.membership
        if (answer.leader, answer.leader_epoch) != (self.site.node, known.leader_epoch):
            return  # another term has begun: the record will come
        altered = replace(known, isr=answer.isr, partition_epoch=answer.partition_epoch)
        self.replication_effects(role, role.replication.changed(altered, self.site.clock_ms))

    def _ask_again(self, role: Leading, wanted: replication.AlterIsr) -> None:
        if self.role is role and role.replication.proposed == wanted.isr:
            self._alter_isr(role, wanted, again=True)

    def compaction_effects(self, role: Leading, effects: list[compaction.LeaderEffect]) -> None:
        """All but what answers a call; `coordination` takes care of those."""
        for effect in effects:
            match effect:
                case compaction.Persist():
                    self._keep(effect)
                case compaction.Propose(removable):
                    self._propose(role, removable)
                case compaction.Announce():
                    self.tell(self, effect)
                case compaction.LeaveIsr(node):
                    self.replication_effects(role, role.replication.without([node]))
                case _:
                    pass

    def _propose(self, role: Leading, removable: compaction.Removable) -> None:
        request = controller.ProposeRemovable(
            None, self.site.node, self.partition.topic, self.partition.partition,
            self.leader_epoch, removable.mtro, removable.mxro,
        )  # fmt: skip

        def then(answer: object | None) -> None:
            agreed = isinstance(answer, controller.RemovableKept)
            if self.role is role and role.compaction is not None and agreed:
                effects = role.compaction.handle(compaction.Agreed(removable))
                self.compaction_effects(role, effects)

        self.site.ask_controller(request, then)

    def follower_effects(self, effects: list[compaction.FollowerEffect]) -> None:
        for effect in effects:
            match effect:
                case compaction.DiscardLog():
                    self.discard()
                case compaction.Persist():
                    self._keep(effect)
                case compaction.Fetch():
                    assert isinstance(self.role, Following)
                    self.role.may_fetch = True
                case compaction.Register():
                    assert isinstance(self.role, Following)
                    self.role.register = effect
                case compaction.Report():
                    pass  # `coordination` answers with it

    # ── cleaning ──

    @property
    def removable(self) -> compaction.Removable:
        """Below which offsets this replica may forget witnesses."""
        return self.talk.removable

    @property
    def progress(self) -> compaction.Progress:
        return self.talk.progress

    @property
    def talk(self) -> compaction.Leader | compaction.Follower:
        """Its part in the conversation about compaction: what it keeps, unless it leads one."""
        return (isinstance(self.role, Leading) and self.role.compaction) or self.state

    def cleaned(self, end: int) -> None:
        """A pass over everything below `end` is durable."""
        done = compaction.Cleaned(compaction.Progress(end, end))
        role = self.role
        if not self.coordinated:
            return
        if isinstance(role, Leading) and role.compaction is not None:
            self.compaction_effects(role, role.compaction.handle(done))
        else:
            self.follower_effects(self.state.handle(done))

    # ── the log as a whole ──

    def truncate(self, offset: int) -> None:
        """Cuts the log where it parts from the leader's; what cleaning relied on must not go."""
        if offset < max(self.progress.mcco, self.progress.mxfo):
            self.restart_empty()
            return
        self.site.directory.truncate(self.partition, offset, self.site.now_ms)

    def restart_empty(self) -> None:
        """Nothing in this log can be trusted to be what the group relies on: copy it anew."""
        self.state.progress = compaction.Progress()
        if not self.coordinated:  # else the leader says what the group relies on
            self.state.removable = compaction.Removable()
        self._keep(compaction.Persist(compaction.Progress(), self.removable, self.state.began_in))
        self.discard()
        self.register()

    def discard(self, start: int = 0) -> None:
        self.site.directory.discard(self.partition, start, self.site.now_ms)
        self.cleaning = LogCleaning()

    def _keep(self, what: compaction.Persist) -> None:
        keep(self.site.directory.disk, self.partition, self.state.assignment, what)

    def notify(self) -> None:
        """Something has changed for those who fetch from here; they hear of it in the end."""
        self.site.stirred[self] = None

    def tell_watchers(self) -> None:
        for look in list(self.watchers.values()):
            look()

    def check(self) -> None:
        self.log.check()
        if isinstance(self.role, Leading):
            self.role.replication.check()
            self.role.markers.check()
            if self.role.compaction is not None:
                self.role.compaction.check()
            assert self.role.replication.high_watermark <= self.log.high_watermark


Tell = Callable[[Replica, compaction.Announce], None]


def _membership(record: PartitionRecord) -> replication.Membership:
    return replication.Membership(
        record.leader_epoch, record.partition_epoch, record.replicas, record.isr
    )
