"""The simulator finds what is wrong: each mistake is planted, found, and without it nothing is.

A safety test that has never failed proves nothing. On every change each mistake is looked for from
a seed on that has found it, and that seed is run again without the mistake. Overnight it is looked
for from seed 1 on, in as many seeds as are promised, and none of these finds anything without it.
"""

from __future__ import annotations

from functools import cache

import pytest

from sexton.sim.checks import Violation
from tests.simulation.planted.planting import PLANTS, planted, wrong
from tests.simulation.planted.recipes import (
    EXTRA,
    HUNTS,
    OF_THE_CLEANER,
    OF_THE_PROTOCOL,
    OF_THE_STORES,
    Hunt,
)
from tests.simulation.planted.trials import Recipe, collected, trial

found_by_nobody = cache(lambda recipe, seed: trial(recipe, seed, None).violation)


def looked_for(name: str, hunt: Hunt, first: int) -> tuple[int, Violation]:
    """The first seed that finds the mistake, and as what."""
    for seed in range(first, hunt.seeds + 1):
        found = _found(hunt, seed, name)
        if found:
            assert found[-1].kind in hunt.kinds, f"seed {seed}: {found[-1]}"
            return seed, found[-1]
    raise AssertionError(f"nothing in {hunt.seeds} seeds, and yet: {wrong(name)}")


def _found(hunt: Hunt, seed: int, name: str) -> list[Violation]:
    if hunt.first_counts:
        violation = trial(hunt.recipe, seed, name).violation
        return [] if violation is None else [violation]
    return [v for v in collected(hunt.recipe, seed, name) if v.kind in hunt.kinds]


def nothing_without_it(recipe: Recipe, seed: int) -> None:
    violation = found_by_nobody(recipe, seed)
    assert violation is None, f"seed {seed}: {violation}"


@pytest.mark.parametrize("name", HUNTS)
def test_each_planted_mistake_is_found_and_without_it_nothing_is(name: str) -> None:
    hunt = HUNTS[name]
    seed, _ = looked_for(name, hunt, hunt.first)
    nothing_without_it(hunt.recipe, seed)


@pytest.mark.parametrize(("name", "seed"), [("late-announcements-believed", 23)])
def test_what_the_long_search_once_found_without_a_mistake_is_mended(name: str, seed: int) -> None:
    nothing_without_it(HUNTS[name].recipe, seed)


def test_every_mistake_that_can_be_planted_is_hunted() -> None:
    assert set(HUNTS) == set(PLANTS)
    wanted = [*OF_THE_CLEANER.values(), *OF_THE_PROTOCOL.values(), *EXTRA, *OF_THE_STORES]
    assert list(HUNTS) == wanted


@pytest.mark.parametrize("name", PLANTS)
def test_a_mistake_says_what_is_wrong_and_can_be_taken_out_again(name: str) -> None:
    changed: list[tuple[object, str, object]] = []

    def patch(owner: object, attribute: str, new: object) -> object:
        old = vars(owner)[attribute]
        changed.append((owner, attribute, old))
        return old

    PLANTS[name](patch)
    with planted(name):
        assert all(vars(owner)[attribute] is not old for owner, attribute, old in changed)
    assert all(vars(owner)[attribute] is old for owner, attribute, old in changed)
    assert wrong(name).endswith(".")


@pytest.mark.soak
@pytest.mark.parametrize("name", HUNTS)
def test_each_planted_mistake_is_found_from_its_first_seed_on(name: str) -> None:
    looked_for(name, HUNTS[name], 1)


@pytest.mark.soak
@pytest.mark.parametrize("name", HUNTS)
def test_none_of_its_seeds_finds_anything_without_the_mistake(name: str) -> None:
    hunt = HUNTS[name]
    for seed in range(1, hunt.seeds + 1):
        nothing_without_it(hunt.recipe, seed)
