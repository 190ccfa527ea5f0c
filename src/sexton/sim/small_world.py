"""Three replicas and a handful of records: what can happen to them, and what must be true.

The real `machines.compaction` decides who may forget what; logs, fetching and elections are as
small as they can be and still be wrong in all the ways that matter (`letters`). Things that can
happen: append, fetch, leave and rejoin the ISR, clean, register, collect, announce (perhaps late),
crash, elect, remove and add a replica, put back an old disk. In each state one asks: whoever could
lead now, would every other replica agree with it once it has caught up, and do both tell the truth?
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sexton.machines.compaction import (
    Accept,
    Agreed,
    Announce,
    Cleaned,
    Collect,
    Discard,
    Follow,
    Follower,
    Leader,
    MembersChanged,
    Progress,
    Propose,
    Register,
    Removable,
    Report,
    Tick,
    may_lead,
)
from sexton.sim.letters import Faults, Record, cleaned, stable, text_of, view

EVERYTHING = 1 << 30
NOTHING = Removable()


@dataclass(frozen=True, slots=True)
class Limits:
    """How often each may happen in one history."""

    cleans: int = 3
    crashes: int = 1
    elections: int = 1
    memberships: int = 0
    old_disks: int = 0
    losses: int = 0  # unclean elections
    states: int = 1_000_000


@dataclass(slots=True)
class Replica:
    machine: Follower
    log: tuple[Record, ...] = ()
    end: int = 0
    hw: int = 0
    up: bool = True
    synced: int = 0  # what a crash cannot take: everything below
    image: tuple[tuple[Record, ...], int, int, Progress, Removable] | None = None  # an old disk

    def copy(self) -> Replica:
        return replace(self, machine=replace(self.machine))

    def key(self) -> tuple[object, ...]:
        m = self.machine
        return (
            self.log, self.end, self.hw, self.up, self.synced, self.image, m.progress, m.removable,
            m.began_in, m.assignment, m.term, m.accepted,
        )  # fmt: skip


@dataclass(slots=True)
class World:
    replicas: dict[int, Replica]
    leader: Leader
    isr: frozenset[int]
    members: dict[int, int]
    appended: int = 0
    late: tuple[Announce, ...] = ()
    lost_in: int = -1
    known_hw: int = 0  # what the controller has heard of
    known: Removable = NOTHING
    collected: frozenset[int] = frozenset()  # who has reported in this term, beyond registering
    used: Limits = field(default_factory=lambda: Limits(0, 0, 0, 0, 0, 0, 0))

    def copy(self) -> World:
        leader = replace(
            self.leader,
            members=dict(self.leader.members),
            reports=dict(self.leader.reports),
            heard=dict(self.leader.heard),
        )
        replicas = {node: replica.copy() for node, replica in self.replicas.items()}
        return replace(self, replicas=replicas, leader=leader, members=dict(self.members))

    def key(self) -> tuple[object, ...]:
        leader = self.leader
        reports = tuple((n, r.progress) for n, r in sorted(leader.reports.items()))
        replicas = tuple(r.key() for r in self.replicas.values())
        return (
            replicas, leader.node, leader.term, reports, leader.removable, self.lost_in,
            self.isr, tuple(self.members.items()), self.appended, self.late, self.used,
            self.known_hw, self.known, self.collected,
        )  # fmt: skip

    @property
    def led(self) -> Replica:
        return self.replicas[self.leader.node]


class Rules:
    def __init__(self, records: tuple[Record, ...], limits: Limits, faults: Faults) -> None:
        self.script = records
        self.limits = limits
        self.faults = faults

    def start(self) -> World:
        """Three empty replicas in sync, 1 leads."""
        members = {1: 0, 2: 0, 3: 0}
        replicas = {n: Replica(Follower(n, assignment=0)) for n in members}
        leader = Leader(1, 0, dict(members), Progress(), Removable())
        world = World(replicas, leader, frozenset(members), members)
        for node in (2, 3):
            self._hear(world, node)
            self._register(world, node)
        return world

    # ── what can happen ──

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._log_moves(world)
        yield from self._protocol_moves(world)
        yield from self._failures(world)

    def _log_moves(self, world: World) -> Iterator[tuple[str, World]]:
        if world.led.up and world.appended < len(self.script):
            after = world.copy()
            record = self.script[after.appended]
            after.led.log += (record,)
            after.led.end = record.offset + 1
            after.appended += 1
            self._raise_hw(after)
            yield f"append {text_of(record)}", after
        for node in self._others(world):
            replica = world.replicas[node]
            fetches = (
                replica.up
                and world.led.up
                and (replica.machine.accepted or self.faults.independent)
            )
            if fetches and replica.end < world.led.end:
                after = world.copy()
                self._fetch(after, node)
                yield f"{node} fetches", after
            if node in world.isr and (not replica.up or replica.end < world.led.end):
                after = world.copy()
                after.isr -= {node}
                self._raise_hw(after)
                yield f"{node} leaves the ISR", after
            if fetches and node not in world.isr and replica.end >= world.led.hw:
                after = world.copy()
                after.isr |= {node}
                yield f"{node} joins the ISR", after
        if world.used.cleans < self.limits.cleans:
            for node in world.members:
                if world.replicas[node].up and self._cleanable_end(world.replicas[node]):
                    after = self._spend(world, "cleans")
                    if self._clean(after, node):
                        yield (
                            f"{node} cleans [0,{self._cleanable_end(world.replicas[node])})",
                            after,
                        )

    def _protocol_moves(self, world: World) -> Iterator[tuple[str, World]]:
        if self.faults.independent:
            return
        for node in self._others(world):
            replica = world.replicas[node]
            if not (replica.up and world.led.up):
                continue
            if not replica.machine.accepted and replica.machine.term == world.leader.term:
                after = world.copy()
                self._register(after, node)
                yield f"{node} registers", after
            elif replica.machine.accepted:
                after = world.copy()
                self._collect(after, node)
                yield f"{node} reports", after
        for message in dict.fromkeys(world.late):
            after = world.copy()
            left = list(world.late)
            left.remove(message)
            after.late = tuple(left)
            self._deliver(after, message)
            told = message.removable
            yield f"{message.node} hears MTRO {told.mtro}, MXRO {told.mxro}", after

    def _failures(self, world: World) -> Iterator[tuple[str, World]]:
        for node in world.members:
            replica = world.replicas[node]
            if replica.up and world.used.crashes < self.limits.crashes:
                after = self._spend(world, "crashes")
                self._crash(after.replicas[node])
                yield f"{node} crashes", after
                if replica.synced < replica.end and world.isr - {node}:
                    after = after.copy()
                    self._lose_tail(after, node)
                    yield f"{node} crashes and loses what was not synced", after
            if not replica.up and node != world.leader.node:
                after = world.copy()
                after.replicas[node].up = True
                self._hear(after, node)
                yield f"{node} is back", after
            if world.used.old_disks < self.limits.old_disks and replica.up and not replica.image:
                after = world.copy()
                self._take_image(after.replicas[node])
                yield f"{node}'s disk is copied", after
            if replica.image and not replica.up and world.used.old_disks < self.limits.old_disks:
                after = self._spend(world, "old_disks")
                self._put_back(after.replicas[node])
                yield f"{node}'s old disk is put back", after
        if world.used.elections < self.limits.elections:
            for node in sorted(world.isr - {world.leader.node}):
                if self._may_lead(world, node):
                    after = self._spend(world, "elections")
                    self._elect(after, node, lost=False)
                    yield f"{node} is elected", after
        if world.used.losses < self.limits.losses and not world.led.up:
            for node in world.members:
                if world.replicas[node].up and node not in world.isr:
                    after = self._spend(world, "losses")
                    self._elect(after, node, lost=True)
                    yield f"{node} is elected uncleanly", after
        if world.used.memberships < self.limits.memberships:
            for node in self._others(world):
                after = self._spend(world, "memberships")
                self._reassign(after, node)
                yield f"{node} is removed and added again", after

    def _spend(self, world: World, what: str) -> World:
        after = world.copy()
        after.used = replace(after.used, **{what: getattr(after.used, what) + 1})
        return after

    def _may_lead(self, world: World, node: int) -> bool:
        replica = world.replicas[node]
        progress = replica.machine.progress
        return replica.up and may_lead(replica.end, progress, world.known_hw, world.known)

    def _others(self, world: World) -> list[int]:
        return [node for node in world.members if node != world.leader.node]

    # ── replication ──

    def _raise_hw(self, world: World) -> None:
        ends = [world.replicas[node].end for node in world.isr]
        world.led.hw = max(world.led.hw, min(ends, default=0))
        world.known_hw = max(world.known_hw, world.led.hw)

    def _fetch(self, world: World, node: int) -> None:
        replica, led = world.replicas[node], world.led
        following = [record for record in led.log if record.offset >= replica.end]
        if following:
            replica.log += (following[0],)
            replica.end = following[0].offset + 1
        else:
            replica.end = led.end  # what was there has been cleaned away
        self._raise_hw(world)
        replica.hw = max(replica.hw, min(led.hw, replica.end))

    def _hear(self, world: World, node: int) -> None:
        """A follower learns who leads, and cuts what the leader does not have."""
        replica, leader = world.replicas[node], world.leader
        effects = replica.machine.handle(Follow(leader.term, leader.node, world.members[node]))
        if len(effects) > 1:
            replica.log, replica.end, replica.hw, replica.synced = (), 0, 0, 0
            if self.faults.added_replica_is_clean:
                replica.machine.progress = Progress(world.led.end, world.led.end)
        if replica.end > world.led.end:
            replica.log = tuple(r for r in replica.log if r.offset < world.led.end)
            replica.end = world.led.end
            replica.hw = min(replica.hw, replica.end)
            replica.synced = min(replica.synced, replica.end)

    def _elect(self, world: World, node: int, lost: bool) -> None:
        chosen = world.replicas[node]
        world.isr = (
            frozenset({node}) if lost else frozenset(n for n in world.isr if world.replicas[n].up)
        )
        machine = chosen.machine
        if lost and not self.faults.unclean_without_discard:
            world.lost_in = world.leader.term + 1
        old_reports = world.leader.reports
        world.leader = Leader(
            node,
            world.leader.term + 1,
            dict(world.members),
            machine.progress,
            machine.removable,
            lost_in=world.lost_in,
            began_in=machine.began_in,
        )
        world.leader.start(chosen.end)
        machine.progress, machine.removable = world.leader.progress, world.leader.removable
        machine.began_in = world.leader.began_in
        if self.faults.kept_reports:
            world.leader.reports = {n: r for n, r in old_reports.items() if n != node}
        world.appended = chosen.end
        world.collected = frozenset()
        if lost:
            world.known_hw, world.known = chosen.end, machine.removable
        for other in self._others(world):
            if world.replicas[other].up:
                self._hear(world, other)
        self._raise_hw(world)

    def _crash(self, replica: Replica) -> None:
        replica.up = False
        replica.machine.accepted = False

    def _lose_tail(self, world: World, node: int) -> None:
        """What was not synced is gone, and so is the right to lead."""
        replica = world.replicas[node]
        replica.log = tuple(r for r in replica.log if r.offset < replica.synced)
        replica.end = min(replica.end, replica.synced)
        replica.hw = min(replica.hw, replica.end)
        world.isr -= {node}

    def _take_image(self, replica: Replica) -> None:
        machine = replica.machine
        replica.image = (
            replica.log, replica.end, replica.hw, machine.progress, machine.removable
        )  # fmt: skip

    def _put_back(self, replica: Replica) -> None:
        assert replica.image is not None
        replica.log, replica.end, replica.hw, progress, removable = replica.image
        replica.machine.progress, replica.machine.removable = progress, removable
        replica.synced, replica.image = replica.end, None

    def _reassign(self, world: World, node: int) -> None:
        world.members[node] += 1
        world.isr -= {node}
        before = dict(world.leader.reports)
        self._follow_up(world, world.leader.handle(MembersChanged(dict(world.members))))
        if self.faults.kept_reports:
            world.leader.reports = before
        if world.replicas[node].up:
            self._hear(world, node)
        self._raise_hw(world)

    # ── the protocol, by the real machines ──

    def _register(self, world: World, node: int) -> None:
        """Register, the answer, and if it was to start over, registering again."""
        machine = world.replicas[node].machine
        for _attempt in range(2):
            register = Register(
                node, machine.term, machine.session, machine.assignment, machine.began_in,
                machine.progress,
            )  # fmt: skip
            if self.faults.trusted_disk:
                register = replace(register, progress=Progress(EVERYTHING, EVERYTHING))
            kept = world.leader.reports.get(node) if self.faults.kept_reports else None
            effects = world.leader.handle(register)
            if kept is not None and node in world.leader.reports:
                effects += world.leader.handle(
                    Report(node, machine.term, machine.session, kept.progress)
                )
            if self.faults.trusted_disk and node in world.leader.reports:
                report = Report(node, machine.term, machine.session, machine.progress)
                effects += world.leader.handle(report)
            for effect in effects:
                if isinstance(effect, Accept | Discard):
                    self._answer(world, node, effect)
            self._follow_up(world, effects)
            if machine.accepted:
                return

    def _answer(self, world: World, node: int, answer: Accept | Discard) -> None:
        replica = world.replicas[node]
        replica.machine.handle(answer)
        if isinstance(answer, Discard):
            replica.log, replica.end, replica.hw, replica.synced = (), 0, 0, 0
            world.isr -= {node}

    def _collect(self, world: World, node: int) -> None:
        if self.faults.stable_offset_as_mxfo:
            for replica in (world.replicas[node], world.led):
                mcco = replica.machine.progress.mcco
                replica.machine.progress = Progress(mcco, self._stable(replica))
            world.leader.progress = world.led.machine.progress
        world.collected |= {node} if self.faults.silence_counts_as_done else frozenset()
        for ask in world.leader.handle(Tick()):
            if isinstance(ask, Collect) and ask.node == node:
                for effect in world.replicas[node].machine.handle(ask):
                    if isinstance(effect, Report):
                        self._follow_up(world, world.leader.handle(effect))

    def _follow_up(self, world: World, effects: list) -> None:  # type: ignore[type-arg]
        for effect in [effect for effect in effects if isinstance(effect, Propose)]:
            world.known = world.known.raised_to(effect.removable)
            effects += world.leader.handle(Agreed(effect.removable))
        self._plant_minima(world, effects)
        for effect in effects:
            if isinstance(effect, Announce) and effect not in world.late:
                world.late = (*world.late, effect)[-3:]
        led = world.led.machine
        led.progress, led.removable = world.leader.progress, world.leader.removable
        world.known = world.known.raised_to(world.leader.removable)

    def _plant_minima(self, world: World, effects: list) -> None:  # type: ignore[type-arg]
        """Two ways to compute the minima wrongly."""
        leader = world.leader
        if self.faults.minimum_over_isr:
            counted = world.isr
        elif self.faults.silence_counts_as_done:
            counted = world.collected & frozenset(leader.reports)
        else:
            return
        known = [leader.progress] + [r.progress for n, r in leader.reports.items() if n in counted]
        lowest = Removable(min(p.mcco for p in known), min(p.mxfo for p in known))
        raised = leader.removable.raised_to(lowest)
        if raised != leader.removable:
            leader.removable = leader.proposed = raised
            effects += [Announce(n, leader.term, raised) for n in self._others(world)]

    def _deliver(self, world: World, message: Announce) -> None:
        replica = world.replicas[message.node]
        if self.faults.late_announcements and replica.up:
            replica.machine.removable = replica.machine.removable.raised_to(message.removable)
            if message.node == world.leader.node:
                world.leader.removable = replica.machine.removable
        elif replica.up and message.node != world.leader.node:
            replica.machine.handle(message)

    def _cleanable_end(self, replica: Replica) -> int:
        return min(replica.hw, self._stable(replica))

    def _stable(self, replica: Replica) -> int:
        return stable(replica.log, replica.end, replica.hw, self.faults)

    def _clean(self, world: World, node: int) -> bool:
        """One pass; False if it would change nothing."""
        replica = world.replicas[node]
        end = self._cleanable_end(replica)
        leads = node == world.leader.node
        machine = replica.machine
        removable = world.leader.removable if leads else machine.removable
        if self.faults.independent:
            removable = Removable(EVERYTHING, EVERYTHING)
        before = replica.log
        replica.log = cleaned(before, end, removable, self.faults)
        old_progress = world.leader.progress if leads else machine.progress
        if replica.log == before and old_progress.mcco >= end and old_progress.mxfo >= end:
            return False
        if not self.faults.reported_before_sync:
            replica.synced = replica.end
        done = Cleaned(Progress(end, end))
        if leads:
            self._follow_up(world, world.leader.handle(done))
            machine.progress = world.leader.progress
        else:
            machine.handle(done)
        return True

    # ── what must be true ──

    def wrong(self, world: World) -> str | None:
        """Whoever may lead: does it tell the truth, and would everyone agree with it?"""
        for node in sorted(world.isr):
            if not self._may_lead(world, node):
                continue
            leader = world.replicas[node]
            truth = view(self.script[: leader.end])
            told = view(leader.log)
            if told != truth:
                return f"{node} tells {told}, the truth is {truth}"
            for other in world.members:
                if other != node:
                    healed = self._healed(world, node, other)
                    if view(healed) != told:
                        return f"{other} would tell {view(healed)}, its leader {node} tells {told}"
        return None

    def _healed(self, world: World, node: int, other: int) -> tuple[Record, ...]:
        """The log of `other` once it has registered with `node` as leader and caught up."""
        leader, follower = world.replicas[node], world.replicas[other]
        same = world.leader.node == node
        log, end = follower.log, follower.end
        if same and follower.up and follower.machine.accepted:
            pass  # it goes on as it is
        elif not self.faults.independent and self._would_discard(world, node, other):
            log, end = (), 0
        kept = tuple(r for r in log if r.offset < leader.end)
        end = min(end, leader.end)
        return kept + tuple(r for r in leader.log if r.offset >= end)

    def _would_discard(self, world: World, node: int, other: int) -> bool:
        machine = world.replicas[other].machine
        if machine.assignment != world.members[other]:
            return True
        chosen = world.replicas[node].machine
        if node == world.leader.node:
            leader = world.copy().leader
        else:
            leader = Leader(
                node, world.leader.term + 1, dict(world.members), chosen.progress,
                chosen.removable, world.lost_in,
            )  # fmt: skip
        progress = machine.progress
        if self.faults.trusted_disk:
            progress = Progress(EVERYTHING, EVERYTHING)
        register = Register(
            other, leader.term, machine.session + 1, machine.assignment, machine.began_in, progress
        )
        return any(isinstance(effect, Discard) for effect in leader.handle(register))
