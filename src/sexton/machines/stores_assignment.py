"""Which instance works on which task, and who keeps a copy warm?

The group's leader decides, from what every member says of itself: the tasks it owns, and the copies
it has with the changelog position of each. Only copies that a member has *verified* are named (of
this cluster, of this changelog, not older than its tombstones), and a position here only decides
who is asked first: whoever is promoted reads the changelog to its end, whatever it said before.

    1  a task stays with its owner
    2  a task without one goes to a member whose copy is caught up, the one with the least to do;
       where nobody's is, to the one that is nearest, even if that is more than its share
    3  whoever has more than its share gives tasks to members that are caught up on them; where
       none is, one of them gets a copy to warm up, and asks again when it is ready
    4  every task has `standbys` copies on other members: on those that are caught up before any
       others, and among them on whoever has the fewest so far; a copy that warms up is not one of
       them, as it would not help yet

How far behind a copy is it says itself, if it follows the changelog: what it lacked of what it saw
there. Positions that members told at different moments differ by whatever was written in between,
and on a busy changelog nobody would ever seem caught up.

A task that moves is given up first: for one round nobody has it (cooperative rebalancing, KIP-429),
and nobody who goes on working while the group thinks is ever disturbed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from sexton.base.lazy_dataclass import dataclass

CAUGHT_UP = 10_000  # records that a promotion may have to read: a blink
MOST_WARMING = 2  # copies that are made only to move a task, at a time and per member


class TaskId(NamedTuple):
    task: str
    partition: int


@dataclass(frozen=True, slots=True)
class Member:
    """What a member says of itself."""

    name: str  # sorts: everybody who decides decides alike
    tasks: frozenset[str]  # that it has code for
    owned: frozenset[TaskId] = frozenset()
    generation: int = -1  # in which it owned them
    copies: Mapping[TaskId, int] = field(default_factory=dict)  # verified: task -> position
    lags: Mapping[TaskId, int] = field(default_factory=dict)  # as the copy itself saw it


@dataclass(slots=True)
class Share:
    """What a member is to do."""

    active: list[TaskId] = field(default_factory=list)
    standby: list[TaskId] = field(default_factory=list)
    warming: list[TaskId] = field(default_factory=list)  # among the standbys

    @property
    def load(self) -> int:
        return len(self.active)


def assign(tasks: Sequence[TaskId], members: Sequence[Member], standbys: int) -> dict[str, Share]:
    return _Assigning(sorted(tasks), sorted(members, key=lambda m: m.name), standbys).result()


class _Assigning:
    def __init__(self, tasks: list[TaskId], members: list[Member], standbys: int) -> None:
        self.tasks = tasks
        self.members = {m.name: m for m in members}
        self.standbys = standbys
        self.shares = {m.name: Share() for m in members}
        self.owner: dict[TaskId, str] = {}

    def result(self) -> dict[str, Share]:
        if not self.members:
            return {}
        self._keep()
        for task in self.tasks:
            if task not in self.owner:
                self._place(task)
        self._level()
        for task in self.tasks:
            self._copies(task)
        return self.shares

    # ── 1: a task stays ──

    def _keep(self) -> None:
        """Two that own the same: the later generation is right; in the same one neither is."""
        for task in self.tasks:
            claims = [m for m in self.members.values() if task in m.owned]
            latest = max((m.generation for m in claims), default=-1)
            owners = [m for m in claims if m.generation == latest]
            if len(owners) == 1 and task.task in owners[0].tasks:
                self._give(task, owners[0].name)

    def _give(self, task: TaskId, name: str) -> None:
        self.owner[task] = name
        self.shares[name].active.append(task)

    # ── 2: one without an owner ──

    def _place(self, task: TaskId) -> None:
        able = self._able(task)
        if not able:
            return
        ready = [name for name in able if self._lag(task, name) <= CAUGHT_UP]
        if ready:
            # With the same to do, the nearer copy.
            name = min(ready, key=lambda n: (self.shares[n].load, self._lag(task, n), n))
        else:
            name = min(able, key=lambda n: (self._lag(task, n), self.shares[n].load, n))
        self._give(task, name)

    def _able(self, task: TaskId) -> list[str]:
        return [name for name, member in self.members.items() if task.task in member.tasks]

    def _lag(self, task: TaskId, name: str) -> int:
        """How far behind its changelog, or else behind the furthest copy that anybody has."""
        seen = self.members[name].lags.get(task)
        if seen is not None:
            return seen
        furthest = max((m.copies.get(task, 0) for m in self.members.values()), default=0)
        return furthest - self.members[name].copies.get(task, 0)

    # ── 3: even shares ──

    def _level(self) -> None:
        """One task at a time from the fullest to the emptiest, while that makes a difference."""
        moved: list[TaskId] = []
        refused: set[tuple[str, str]] = set()
        while (pair := self._uneven(refused)) is not None:
            full, empty = pair
            task = self._movable(full, empty)
            if task is None:
                self._warm(full, empty)
                refused.add(pair)
                continue
            self.shares[full].active.remove(task)
            self._give(task, empty)
            if task in self.members[full].owned:
                moved.append(task)
        for task in moved:  # its owner gives it up first; then it has no owner, and is placed
            self.shares[self.owner[task]].active.remove(task)

    def _uneven(self, refused: set[tuple[str, str]]) -> tuple[str, str] | None:
        order = sorted(self.shares, key=lambda n: (self.shares[n].load, n))
        for full in reversed(order):
            for empty in order:
                apart = self.shares[full].load - self.shares[empty].load
                if apart >= 2 and (full, empty) not in refused:
                    return full, empty
        return None

    def _movable(self, full: str, empty: str) -> TaskId | None:
        able = [
            task for task in self.shares[full].active
            if task.task in self.members[empty].tasks and self._lag(task, empty) <= CAUGHT_UP
        ]  # fmt: skip
        return min(able, key=lambda task: (self._lag(task, empty), task), default=None)

    def _warm(self, full: str, empty: str) -> None:
        able = [t for t in self.shares[full].active if t.task in self.members[empty].tasks]
        able.sort(key=lambda task: (self._lag(task, empty), task))
        warming = self.shares[empty].warming
        for task in able[: MOST_WARMING - len(warming)]:
            if task not in warming:
                warming.append(task)
                self.shares[empty].standby.append(task)

    # ── 4: copies ──

    def _copies(self, task: TaskId) -> None:
        others = [
            name for name in self._able(task)
            if name != self.owner.get(task) and task not in self.shares[name].warming
        ]  # fmt: skip
        others.sort(key=lambda n: (self._lag(task, n) > CAUGHT_UP, self._busy(n), n))
        # Whoever is caught up comes first: on a long changelog only who has a copy already.
        for name in others[: self.standbys]:
            self.shares[name].standby.append(task)

    def _busy(self, name: str) -> int:
        return len(self.shares[name].standby)
