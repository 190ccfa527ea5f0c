from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import cast

import pytest

from sexton.sim import campaign as campaigns
from sexton.sim.campaign import Finished, campaign
from sexton.sim.checks import Counts, Violation
from sexton.sim.clients import Traffic
from sexton.sim.faults import FAULTS
from sexton.sim.options import Options
from sexton.sim.run import Result
from sexton.sim.totals import Totals


@dataclass
class Deadly:
    """Options that kill the process that receives them."""

    seed: int

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (7,)


def test_a_worker_that_dies_is_reported_with_its_seed() -> None:
    plan = [cast("Options", Deadly(seed)) for seed in (4, 5)]
    died = sorted(campaign(plan, jobs=2), key=lambda finished: finished.result.seed)
    assert [finished.result.seed for finished in died] == [4, 5]
    violation = died[0].result.violation
    assert violation is not None
    assert str(violation) == ("worker-died on seed 4: the process that ran it ended with code 7")


def test_one_job_needs_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    def run_one(options: Options) -> Finished:
        ran.append(options.seed)
        return Finished(Result(options.seed, options))

    monkeypatch.setattr(campaigns, "run_one", run_one)
    seeds = iter(campaign(map(Options.of, range(1_000_000)), jobs=1))
    assert [next(seeds).result.seed for _ in range(3)] == ran == [0, 1, 2]


def test_whatever_a_run_counts_is_in_the_totals() -> None:
    options = Options.of(1)
    counts = Counts(**{each.name: n + 1 for n, each in enumerate(fields(Counts))})
    traffic = Traffic(**{each.name: n + 50 for n, each in enumerate(fields(Traffic))})
    violation = Violation("stuck", 0, "here", "it")
    result = Result(1, options, violation, 10.5, 1_000, counts, traffic, {"power-cut": 3}, 70, 71)
    totals = Totals()
    for _ in range(2):
        totals.add(Finished(result, cpu_s=0.25))
    assert (totals.seeds, totals.failed, totals.violations) == (2, 2, {"stuck": 2})
    assert (totals.hours, totals.events, totals.events_per_core_second) == (21.0, 2_000, 4_000)
    assert totals.faults == dict.fromkeys(FAULTS, 0) | {"power-cut": 6}
    happened = totals.happened()
    assert happened["messages_lost"] == 140
    assert happened["passes"] == 2 * counts.passes
    assert happened["client_deletes"] == 2 * traffic.deletes
    assert len(happened) == 2 + len(fields(Counts)) + len(fields(Traffic))
