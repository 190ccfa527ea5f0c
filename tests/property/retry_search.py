"""What must be true in the small world, and a search through every history of it, nearest first."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from sexton.machines.retry_records import Command, command_record
from tests.property.retry_group import BOTH, NAME, letter
from tests.property.retry_rules import Moves
from tests.property.retry_world import Record, World

STEPS_TO_HEAL = 200


class Rules(Moves):
    def wrong(self, world: World) -> str | None:
        if world.refused and not world.used.lost:
            return "it refuses to start, and nothing was lost"
        return world.fault

    def stuck(self, world: World) -> str | None:
        """If nothing more went wrong from now on, would everything end well?"""
        world = world.copy(*BOTH)
        wrong = self._heal(world)
        if world.refused:
            return self.wrong(world)
        if wrong is None and not self.transactional and self.mistake is None:
            # A predecessor that woke up late may have written what the next start reaps.
            wrong = self._unhandled(world)
            self._assign(world, world.owner)
            wrong = wrong or self._heal(world)
        return wrong or self._unhandled(world) or self._at_the_end(world)

    def _heal(self, world: World) -> str | None:
        for _step in range(STEPS_TO_HEAL):
            self._clear_up(world)
            owner = world.workers[world.owner]
            if world.refused:
                return None
            if owner.phase == "stopped":
                return "stuck: the owner has stopped, and the group does not know"
            if not self._heal_step(world):
                return None
            if world.fault:
                return world.fault
        return "it never ends"

    def _clear_up(self, world: World) -> None:
        for number, each in enumerate(world.workers):
            if not each.current and each.phase != "down":
                each.go_down()  # it hears of the rebalance
            if each.current and each.phase == "down":
                self._assign(world, number)
        for which, transaction in list(world.transactions.items()):
            of = world.workers[which[0]]
            if transaction.decided is None and of.number != which:
                self._decide(world, which, commit=False)
            elif transaction.decided is not None:
                for place in sorted(transaction.unmarked):
                    world.mark(which, place)

    def _heal_step(self, world: World) -> bool:
        """Of the owner; False: it has nothing left to do."""
        number = world.owner
        worker = world.workers[number]
        if worker.phase == "starting":
            assert self._start_step(world, number) is not None
            return True
        if worker.phase == "sending":
            after = next(after for _, after in self._steps(world, number))
            for slot in World.__slots__:
                setattr(world, slot, getattr(after, slot))
            world.workers = tuple(each.copy() for each in world.workers)
            return True
        task = worker.task
        assert task is not None
        if task.stale:
            commit = worker.own_task().reap()
            assert commit is not None
            self._send(world, number, commit, ())
            return True
        polled = min(2, len(self.script) - task.position)
        runs, _ = self._round(world, number, polled, None)
        task = world.workers[number].task
        assert task is not None
        if polled or runs or worker.phase == "sending" or task.wake_at_ms(0) is not None:
            return True
        return self._redrive(world, number)

    def _redrive(self, world: World, number: int) -> bool:
        """Somebody looks at what is held, and has it tried again."""
        task = world.workers[number].task
        assert task is not None
        dead = [message for message, held in task.pending.held.items() if held.dead]
        for message in dead:
            key, value = command_record(NAME, Command("redrive", message), f"{message}")
            world.append("retry", [Record(key, value, None, -1)])
        return bool(dead)

    def _unhandled(self, world: World) -> str | None:
        done = world.done if self.transactional else world.effects
        missing = [each for each in range(len(self.script)) if each not in done]
        return f"{letter(missing[0])} is never handled" if missing else None

    def _at_the_end(self, world: World) -> str | None:
        task = world.workers[world.owner].task
        assert task is not None
        blocked = [key for key in sorted(set(self.script)) if key.encode() in task.blocked()]
        if blocked:
            return f"key {blocked[0]} is locked for ever"
        if self.mistake is None:
            left = {record.key: record.value for record in world.lock if record}
            held = [key.decode() for key, value in left.items() if value is not None]
            kept = {record.key: record.value for record in world.retry if record}
            held += [key.decode() for key, value in kept.items() if value is not None]
            if held:
                return f"{held[0]} is still there"
            assert not task.orders.orphans, task.orders.orphans
        return None


# ── every history, nearest first ──


@dataclass(frozen=True, slots=True)
class Found:
    states: int
    story: tuple[str, ...]
    what: str | None  # None: nothing is wrong

    def __str__(self) -> str:
        return "\n".join(
            [*(f"  {n + 1}. {move}" for n, move in enumerate(self.story)), f"  ⇒ {self.what}"]
        )


class _Path(NamedTuple):
    move: str
    before: _Path | None

    def story(self) -> tuple[str, ...]:
        return (*(self.before.story() if self.before else ()), self.move)


def search(rules: Rules, heal_every: int = 1, begin: str = "") -> Found:
    """Looks at every state that can be reached, nearest first; stops at the first that is wrong.

    `heal_every`: whether it would end well is asked in every so-many-th state only, 0: in none.
    `begin`: moves to make before the search starts, so that it gets further in the same time.
    """
    start, path = rules.begin(), None
    for name in filter(None, (part.strip() for part in begin.split(";"))):
        start, path = dict(rules.moves(start))[name], _Path(name, path)
    seen = {hash(start.key())}
    waiting: deque[tuple[World, _Path | None]] = deque([(start, path)])
    looked = 0
    while waiting and len(seen) < rules.limits.states:
        world, path = waiting.popleft()
        looked += 1
        wrong = rules.wrong(world)
        if wrong is None and heal_every and looked % heal_every == 0:
            wrong = rules.stuck(world)
        if wrong is not None:
            return Found(len(seen), path.story() if path else (), wrong)
        for name, after in rules.moves(world):
            key = hash(after.key())
            if key not in seen:
                seen.add(key)
                waiting.append((after, _Path(name, path)))
    return Found(len(seen), (), None)
