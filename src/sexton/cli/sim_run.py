"""`sexton sim run`: many seeds on all cores, what they contained and which failed."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.options import FormatOption, JobsOption, Policy
from sexton.cli.output import Output
from sexton.cli.sim_options import (
    HOURS,
    FaultsOption,
    HoursOption,
    PolicyOption,
    SetOption,
    report_violation,
)
from sexton.cli.writers import Format
from sexton.report.tables import Cell, Column, Row, number

if TYPE_CHECKING:
    from sexton.sim.campaign import Finished
    from sexton.sim.options import Options
    from sexton.sim.totals import Totals

EXAMPLES = (
    ("Try a hundred seeds", "sexton sim run --seeds 100"),
    (
        "See how replicas that clean on their own come to disagree",
        "sexton sim run --seeds 20 --policy independent",
    ),
    (
        "Run as many new seeds as fit into a night",
        "sexton sim run --seeds 1000000 --first-seed 5000 --minutes 480",
    ),
    (
        "Run with crashes only, and get one JSON object per seed",
        "sexton sim run --seeds 10 --faults killed-leader,power-cut --format jsonl",
    ),
)
SEEDS = (
    number("seed"),
    number("hours"),
    number("events"),
    number("faults"),
    number("passes"),
    number("elections"),
    number("cpu_seconds"),
    Column("violation"),
)
FAULTS = (Column("fault"), number("times"))


def command(
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds to run.", min=1)] = 20,
    first_seed: Annotated[int, typer.Option("--first-seed", help="The first seed.")] = 1,
    hours: HoursOption = HOURS,
    policy: PolicyOption = Policy.coordinated,
    jobs: JobsOption = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="Start no seed after this many real minutes.", min=0),
    ] = None,
    faults: FaultsOption = None,
    settings: SetOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Run simulated clusters through faults and check that no replica forgets too early.

    Each seed is a cluster with its own clients, sizes and faults, on simulated disks, network and
    clocks. When its hours are over everything heals; then replicas must agree, and what may be
    removed must be removed. A seed that fails prints its options and how to replay it.
    """
    from sexton.sim.replay import replay_options
    from sexton.sim.totals import Totals

    began = time.monotonic()

    def options(seed: int) -> Options:
        return replay_options(seed, hours, policy.value, faults, settings or ())

    def plan() -> Iterator[Options]:
        for seed in range(first_seed, first_seed + seeds):
            if minutes is not None and time.monotonic() - began >= minutes * 60:
                return
            yield options(seed)

    with Output("sim run", format) as out:
        options(first_seed)  # what cannot be honoured is said before anything starts
        totals = Totals()
        at_once = min(jobs or os.cpu_count() or 1, seeds)
        try:
            with out.progress("simulating", seeds) as advance:
                rows = _results(out, plan(), at_once, totals, advance)
                if format is Format.table:
                    deque(rows, maxlen=0)  # people want to see failures and totals
                else:
                    out.rows("seeds", SEEDS, rows)
            happened = [(name, times) for name, times in totals.faults.items() if times]
            out.rows("faults", FAULTS, happened)
            out.say("")
            out.say(_verdict(totals))
        finally:  # also when it was interrupted: what was done was done
            if totals.seeds:
                out.summarize(**_summary(totals, time.monotonic() - began))


def _verdict(totals: Totals) -> str:
    if not totals.seeds:
        return "No seed was run: the time was up."
    if totals.failed:
        return f"{totals.failed} of {totals.seeds} seeds failed: see above."
    return "No seed failed: every check held, and replicas agree in the end."


def _results(
    out: Output,
    plan: Iterator[Options],
    jobs: int,
    totals: Totals,
    advance: Callable[[int], None],
) -> Iterator[Row]:
    from sexton.sim.campaign import campaign
    from sexton.sim.replay import Replay

    for finished in campaign(plan, jobs):
        totals.add(finished)
        advance(1)
        violation = finished.result.violation
        if violation is not None:
            report_violation(out, Replay(finished.result.options), violation)
        yield _row(finished)


def _row(finished: Finished) -> Row:
    result = finished.result
    return (
        result.seed,
        round(result.hours, 1),
        result.events,
        sum(result.faults.values()),
        result.counts.passes,
        result.counts.elections,
        round(finished.cpu_s, 2),
        result.violation.kind if result.violation else None,
    )


def _summary(totals: Totals, seconds: float) -> dict[str, Cell]:
    return {
        "seeds": totals.seeds,
        "failed": totals.failed,
        "simulated_hours": round(totals.hours),
        "real_seconds": round(seconds, 1),
        "events": totals.events,
        "events_per_core_second": totals.events_per_core_second,
        "faults": sum(totals.faults.values()),
        "kinds_of_faults": sum(1 for times in totals.faults.values() if times),
        **totals.happened(),
    }
