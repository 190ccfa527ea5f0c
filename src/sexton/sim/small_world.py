"""Three replicas and a handful of records: as little as can still be wrong in all ways that matter.

    small_world    the state: three logs, who leads, who is in sync, what is under way
    small_steps    what each thing that can happen does to it, by the real `machines.compaction`
    small_rules    what can happen next, and what must be true whatever did
    search         every history, nearest first

Records and logs are those of `letters`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sexton.machines.compaction import Announce, Follower, Leader, Progress, Removable
from sexton.sim.letters import Record

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
