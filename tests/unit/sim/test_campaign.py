from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
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
from sexton.testing.waiting import until


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


def test_workers_do_not_outlive_whoever_was_killed_with_a_seed_under_way() -> None:
    """By `timeout`, say, or a cancelled build: a seed of ten years would go on for hours."""
    words = ["sim", "run", "--seeds", "2", "--jobs", "2", "--hours", "87600"]
    employer = subprocess.Popen(
        [sys.executable, "-m", "sexton.cli.main", *words], start_new_session=True
    )
    try:
        until(lambda: len(_in_group(employer.pid, "spawn_main")) == 2, "both workers are there")
        employer.terminate()
        employer.wait()
        until(lambda: not _in_group(employer.pid, ""), "nobody is left", 20.0)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(employer.pid, signal.SIGKILL)


def _in_group(group: int, word: str) -> list[str]:
    command = ["ps", "-ww", "-o", "args=", "-g", str(group)]  # -ww: of any length
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [line for line in listed.splitlines() if word in line]


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
