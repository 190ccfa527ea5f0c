"""What a step does to the small world: copied, elected, crashed, reported, cleaned.

Who may forget what is decided by the real machines; everything around them is written out here in a
few lines each. A planted fault (`Faults`) bends one of these lines.
"""

from __future__ import annotations

from dataclasses import replace

from sexton.machines.compaction import (
    Accept,
    Agreed,
    Announce,
    Cleaned,
    Collect,
    Discard,
    Follow,
    Leader,
    MembersChanged,
    Progress,
    Propose,
    Register,
    Removable,
    Report,
    Tick,
)
from sexton.sim.letters import Faults, cleaned, stable
from sexton.sim.small_world import Replica, World

EVERYTHING = 1 << 30


class Steps:
    def __init__(self, faults: Faults) -> None:
        self.faults = faults

    def others(self, world: World) -> list[int]:
        return [node for node in world.members if node != world.leader.node]

    # ── replication ──

    def raise_hw(self, world: World) -> None:
        ends = [world.replicas[node].end for node in world.isr]
        world.led.hw = max(world.led.hw, min(ends, default=0))
        world.known_hw = max(world.known_hw, world.led.hw)

    def fetch(self, world: World, node: int) -> None:
        replica, led = world.replicas[node], world.led
        following = [record for record in led.log if record.offset >= replica.end]
        if following:
            replica.log += (following[0],)
            replica.end = following[0].offset + 1
        else:
            replica.end = led.end  # what was there has been cleaned away
        self.raise_hw(world)
        replica.hw = max(replica.hw, min(led.hw, replica.end))

    def hear(self, world: World, node: int) -> None:
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

    def elect(self, world: World, node: int, lost: bool) -> None:
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
        # In a small world the controller hears at once of what this log relies on.
        world.leader.start(chosen.end, machine.removable)
        machine.progress, machine.removable = world.leader.progress, world.leader.removable
        machine.began_in = world.leader.began_in
        if self.faults.kept_reports:
            world.leader.reports = {n: r for n, r in old_reports.items() if n != node}
        world.appended = chosen.end
        world.collected = frozenset()
        if lost:
            world.known_hw, world.known = chosen.end, machine.removable
        for other in self.others(world):
            if world.replicas[other].up:
                self.hear(world, other)
        self.raise_hw(world)

    def crash(self, replica: Replica) -> None:
        replica.up = False
        replica.machine.accepted = False

    def lose_tail(self, world: World, node: int) -> None:
        """What was not synced is gone, and so is the right to lead."""
        replica = world.replicas[node]
        replica.log = tuple(r for r in replica.log if r.offset < replica.synced)
        replica.end = min(replica.end, replica.synced)
        replica.hw = min(replica.hw, replica.end)
        world.isr -= {node}

    def take_image(self, replica: Replica) -> None:
        machine = replica.machine
        replica.image = (
            replica.log, replica.end, replica.hw, machine.progress, machine.removable
        )  # fmt: skip

    def put_back(self, replica: Replica) -> None:
        assert replica.image is not None
        replica.log, replica.end, replica.hw, progress, removable = replica.image
        replica.machine.progress, replica.machine.removable = progress, removable
        replica.synced, replica.image = replica.end, None

    def reassign(self, world: World, node: int) -> None:
        world.members[node] += 1
        world.isr -= {node}
        before = dict(world.leader.reports)
        self._follow_up(world, world.leader.handle(MembersChanged(dict(world.members))))
        if self.faults.kept_reports:
            world.leader.reports = before
        if world.replicas[node].up:
            self.hear(world, node)
        self.raise_hw(world)

    # ── the protocol, by the real machines ──

    def register(self, world: World, node: int) -> None:
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

    def collect(self, world: World, node: int) -> None:
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
            effects += [Announce(n, leader.term, raised) for n in self.others(world)]

    def deliver(self, world: World, message: Announce) -> None:
        replica = world.replicas[message.node]
        if self.faults.late_announcements and replica.up:
            replica.machine.removable = replica.machine.removable.raised_to(message.removable)
            if message.node == world.leader.node:
                world.leader.removable = replica.machine.removable
        elif replica.up and message.node != world.leader.node:
            replica.machine.handle(message)

    def cleanable_end(self, replica: Replica) -> int:
        return min(replica.hw, self._stable(replica))

    def _stable(self, replica: Replica) -> int:
        return stable(replica.log, replica.end, replica.hw, self.faults)

    def clean(self, world: World, node: int) -> bool:
        """One pass; False if it would change nothing."""
        replica = world.replicas[node]
        end = self.cleanable_end(replica)
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
