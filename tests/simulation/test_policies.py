"""As Apache Kafka cleans, random faults make replicas diverge in four ways; coordinated, in none.

`test_divergences` has the same four one by one, on purpose.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.planted.recipes import DIVERGENCES, DIVERGING
from tests.simulation.planted.trials import Recipe, collected, trial

LUCKY = 6  # this seed finds all four by itself
MANY = range(1, 13)
FOUND = (5, 12)  # these found something in coordinated cleaning once
COORDINATED = replace(DIVERGING, options=replace(DIVERGING.options, policy="coordinated"))


def kinds(recipe: Recipe, seeds: range) -> set[str]:
    """What the seeds find, until all four divergences are among it."""
    found: set[str] = set()
    for seed in seeds:
        found |= {violation.kind for violation in collected(recipe, seed)}
        if found.issuperset(DIVERGENCES):
            break
    return found


def test_as_kafka_cleans_replicas_diverge_in_all_four_ways() -> None:
    assert kinds(DIVERGING, range(LUCKY, LUCKY + 6)).issuperset(DIVERGENCES)


def test_the_same_faults_do_no_harm_when_cleaning_is_coordinated() -> None:
    result = trial(COORDINATED, LUCKY, None)
    assert result.violation is None, result.violation
    assert result.counts.tombstones_removed > 10, "who removes nothing does no harm either"
    assert result.counts.markers_removed > 10


@pytest.mark.soak
def test_all_four_divergences_show_within_a_dozen_seeds() -> None:
    assert kinds(DIVERGING, MANY).issuperset(DIVERGENCES)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed in FOUND else [pytest.mark.soak]) for seed in MANY]
)
def test_none_of_them_finds_anything_when_cleaning_is_coordinated(seed: int) -> None:
    violation = trial(COORDINATED, seed, None).violation
    assert violation is None, violation
