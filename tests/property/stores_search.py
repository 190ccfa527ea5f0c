"""Every history of the small world of stores, nearest first; or long ones, by chance."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random

from tests.property.stores_world import Limits, Mistakes, Rules


@dataclass(frozen=True)
class Searched:
    states: int
    story: list[str]
    wrong: str | None
    finished: int  # states in which all inputs are committed


def search(inputs: str, limits: Limits, mistakes: Mistakes | None = None) -> Searched:
    """Every reachable state, nearest first; stops at the first that is wrong."""
    rules = Rules(inputs, limits, mistakes or Mistakes())
    start = rules.start()
    before: dict[object, tuple[object, str] | None] = {start.key(): None}
    waiting = deque([start])
    finished = 0
    while waiting and len(before) < limits.states:
        world = waiting.popleft()
        key = world.key()
        finished += sum(len(t.outputs) for t in world.committed) == len(rules.inputs)
        for name, after in rules.moves(world):
            reached = after.key()
            if after.wrong is not None:
                return Searched(len(before), [*_story(before, key), name], after.wrong, finished)
            if reached not in before:
                before[reached] = (key, name)
                waiting.append(after)
    return Searched(len(before), [], None, finished)


def walk(inputs: str, limits: Limits, seed: int, mistakes: Mistakes | None = None) -> Searched:
    """One long history by chance, from one seed."""
    rules, chance = Rules(inputs, limits, mistakes or Mistakes()), Random(seed)
    world, story = rules.start(), list[str]()
    while len(story) < limits.states:
        moves = list(rules.moves(world))
        if not moves:
            break
        name, world = chance.choice(moves)
        story.append(name)
        if world.wrong is not None:
            return Searched(len(story), story, world.wrong, 0)
    done = sum(len(t.outputs) for t in world.committed)
    stuck = len(story) < limits.states and done < len(rules.inputs)
    if stuck and world.epoch < limits.epochs:
        return Searched(len(story), story, "nobody goes on", done)
    return Searched(len(story), [], None, done)


def _story(before: dict[object, tuple[object, str] | None], key: object) -> list[str]:
    story: list[str] = []
    step = before[key]
    while step is not None:
        story.append(step[1])
        step = before[step[0]]
    return story[::-1]
