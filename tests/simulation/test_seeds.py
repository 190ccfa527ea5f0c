"""Whole brokers under random faults: coordinated compaction has nothing to hide.

The first list runs on every change, the second one overnight. A seed that fails prints every option
it stands for and the one command that tells its story.
"""

from __future__ import annotations

import pytest

from sexton.sim.options import Options
from sexton.sim.run import Result, Run

SEEDS = (5, 7, 10, 13, 15, 16)  # the first ones that found something
FOUND = (1_012, 1_014, 1_040)  # the first ones of days that did
MANY = [
    pytest.param(seed, marks=[] if seed in FOUND else [pytest.mark.soak])
    for seed in range(1_000, 1_100)
]


def verdict(result: Result) -> str:
    violation = result.violation
    again = f"sexton sim replay {result.seed} --hours {result.options.hours}"
    return "" if violation is None else f"{violation}\n{result.options.text()}\n{again}"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_replica_that_may_lead_is_ever_wrong(seed: int) -> None:
    result = Run(Options.of(seed, hours=8)).go()
    assert verdict(result) == ""
    assert result.counts.passes > 10, "a run without cleaning proves nothing"
    assert result.counts.records_judged > 500
    if result.options.stores:
        assert result.counts.promotions > 0, "nor does one in which no store was promoted"


@pytest.mark.parametrize("seed", MANY)
def test_nor_in_days(seed: int) -> None:
    assert verdict(Run(Options.of(seed, hours=96)).go()) == ""
