"""What can happen next in the small world, and what must be true whatever did.

Things that can happen: append, fetch, leave and rejoin the ISR, clean, register, collect, announce
(perhaps late), crash, elect, remove and add a replica, put back an old disk. In each state one
asks: whoever could lead now, would every other replica agree with it once it has caught up, and do
both tell the truth?
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sexton.machines.compaction import (
    Discard,
    Follower,
    Leader,
    Progress,
    Register,
    Removable,
    may_lead,
)
from sexton.sim.letters import Faults, Record, text_of, view
from sexton.sim.small_steps import EVERYTHING, Steps
from sexton.sim.small_world import Limits, Replica, World


class Rules:
    def __init__(self, records: tuple[Record, ...], limits: Limits, faults: Faults) -> None:
        self.script = records
        self.limits = limits
        self.faults = faults
        self._steps = Steps(faults)

    def start(self) -> World:
        """Three empty replicas in sync, 1 leads."""
        members = {1: 0, 2: 0, 3: 0}
        replicas = {n: Replica(Follower(n, assignment=0)) for n in members}
        leader = Leader(1, 0, dict(members), Progress(), Removable())
        world = World(replicas, leader, frozenset(members), members)
        for node in (2, 3):
            self._steps.hear(world, node)
            self._steps.register(world, node)
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
            self._steps.raise_hw(after)
            yield f"append {text_of(record)}", after
        for node in self._steps.others(world):
            replica = world.replicas[node]
            fetches = (
                replica.up
                and world.led.up
                and (replica.machine.accepted or self.faults.independent)
            )
            if fetches and replica.end < world.led.end:
                after = world.copy()
                self._steps.fetch(after, node)
                yield f"{node} fetches", after
            if node in world.isr and (not replica.up or replica.end < world.led.end):
                after = world.copy()
                after.isr -= {node}
                self._steps.raise_hw(after)
                yield f"{node} leaves the ISR", after
            if fetches and node not in world.isr and replica.end >= world.led.hw:
                after = world.copy()
                after.isr |= {node}
                yield f"{node} joins the ISR", after
        if world.used.cleans < self.limits.cleans:
            for node in world.members:
                if world.replicas[node].up and self._steps.cleanable_end(world.replicas[node]):
                    after = self._spend(world, "cleans")
                    if self._steps.clean(after, node):
                        yield (
                            f"{node} cleans [0,{self._steps.cleanable_end(world.replicas[node])})",
                            after,
                        )

    def _protocol_moves(self, world: World) -> Iterator[tuple[str, World]]:
        if self.faults.independent:
            return
        for node in self._steps.others(world):
            replica = world.replicas[node]
            if not (replica.up and world.led.up):
                continue
            if not replica.machine.accepted and replica.machine.term == world.leader.term:
                after = world.copy()
                self._steps.register(after, node)
                yield f"{node} registers", after
            elif replica.machine.accepted:
                after = world.copy()
                self._steps.collect(after, node)
                yield f"{node} reports", after
        for message in dict.fromkeys(world.late):
            after = world.copy()
            left = list(world.late)
            left.remove(message)
            after.late = tuple(left)
            self._steps.deliver(after, message)
            told = message.removable
            yield f"{message.node} hears MTRO {told.mtro}, MXRO {told.mxro}", after

    def _failures(self, world: World) -> Iterator[tuple[str, World]]:
        for node in world.members:
            replica = world.replicas[node]
            if replica.up and world.used.crashes < self.limits.crashes:
                after = self._spend(world, "crashes")
                self._steps.crash(after.replicas[node])
                yield f"{node} crashes", after
                if replica.synced < replica.end and world.isr - {node}:
                    after = after.copy()
                    self._steps.lose_tail(after, node)
                    yield f"{node} crashes and loses what was not synced", after
            if not replica.up and node != world.leader.node:
                after = world.copy()
                after.replicas[node].up = True
                self._steps.hear(after, node)
                yield f"{node} is back", after
            if world.used.old_disks < self.limits.old_disks and replica.up and not replica.image:
                after = world.copy()
                self._steps.take_image(after.replicas[node])
                yield f"{node}'s disk is copied", after
            if replica.image and not replica.up and world.used.old_disks < self.limits.old_disks:
                after = self._spend(world, "old_disks")
                self._steps.put_back(after.replicas[node])
                yield f"{node}'s old disk is put back", after
        if world.used.elections < self.limits.elections:
            for node in sorted(world.isr - {world.leader.node}):
                if self._may_lead(world, node):
                    after = self._spend(world, "elections")
                    self._steps.elect(after, node, lost=False)
                    yield f"{node} is elected", after
        if world.used.losses < self.limits.losses and not world.led.up:
            for node in world.members:
                if world.replicas[node].up and node not in world.isr:
                    after = self._spend(world, "losses")
                    self._steps.elect(after, node, lost=True)
                    yield f"{node} is elected uncleanly", after
        if world.used.memberships < self.limits.memberships:
            for node in self._steps.others(world):
                after = self._spend(world, "memberships")
                self._steps.reassign(after, node)
                yield f"{node} is removed and added again", after

    def _spend(self, world: World, what: str) -> World:
        after = world.copy()
        after.used = replace(after.used, **{what: getattr(after.used, what) + 1})
        return after

    def _may_lead(self, world: World, node: int) -> bool:
        replica = world.replicas[node]
        progress = replica.machine.progress
        return replica.up and may_lead(replica.end, progress, world.known_hw, world.known)

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
