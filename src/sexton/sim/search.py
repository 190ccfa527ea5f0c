"""Every possible history of a small world, nearest first.

A search visits every state that some order of moves can lead to, and stops at the first that is
wrong. With `Faults` one mistake is planted at a time, and each must be found: a search that finds
nothing is worth as much as what it would have found.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from sexton.sim.letters import NO_FAULTS, Faults, script
from sexton.sim.small_rules import Rules
from sexton.sim.small_world import Limits, World


@dataclass(frozen=True, slots=True)
class Found:
    story: list[str]
    what: str


@dataclass(frozen=True, slots=True)
class Searched:
    states: int
    found: Found | None


def search(text: str, limits: Limits, faults: Faults = NO_FAULTS, begin: str = "") -> Searched:
    """Looks at every reachable state, nearest first; stops at the first that is wrong.

    `begin` names moves to make before the search starts, so that it gets further in the same time.
    """
    rules = Rules(script(text), limits, faults)
    start = rules.start()
    for name in filter(None, (part.strip() for part in begin.split(";"))):
        start = dict(rules.moves(start))[name]
    seen = {start.key()}
    waiting: deque[tuple[World, _Path | None]] = deque([(start, None)])
    while waiting and len(seen) < limits.states:
        world, path = waiting.popleft()
        wrong = rules.wrong(world)
        if wrong is not None:
            return Searched(len(seen), Found(_story(path), wrong))
        for name, after in rules.moves(world):
            key = after.key()
            if key not in seen:
                seen.add(key)
                waiting.append((after, _Path(name, path)))
    return Searched(len(seen), None)


class _Path(NamedTuple):
    move: str
    before: _Path | None


def _story(path: _Path | None) -> list[str]:
    moves = []
    while path is not None:
        moves.append(path.move)
        path = path.before
    return moves[::-1]
