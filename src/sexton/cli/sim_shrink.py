"""`sexton sim shrink`: as few faults and hours as still make a seed fail."""

from __future__ import annotations

from sexton.cli.options import FormatOption, Policy
from sexton.cli.output import Output
from sexton.cli.sim_options import (
    HOURS,
    FaultsOption,
    HoursOption,
    OnlyOption,
    PolicyOption,
    SeedArgument,
    SetOption,
    WithoutOption,
    chosen_replay,
    report_violation,
)
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

EXAMPLES = (
    ("Find the faults that seed 17 needs to fail", "sexton sim shrink 17"),
    (
        "The same for a run with other options",
        "sexton sim shrink 17 --hours 24 --policy independent --faults killed-leader,old-disk",
    ),
)
FAULTS = (number("number"), Column("time"), Column("what"))


def command(
    seed: SeedArgument,
    hours: HoursOption = HOURS,
    policy: PolicyOption = Policy.coordinated,
    faults: FaultsOption = None,
    settings: SetOption = None,
    without: WithoutOption = None,
    only: OnlyOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Find the fewest faults with which a seed still fails, and the command that replays them.

    The run is repeated with ever fewer faults and hours, keeping what still fails in the same way.
    Of the faults that remain, no single one can be left out. Exits with 1 if the seed fails.
    """
    replay = chosen_replay(seed, hours, policy, faults, settings, without, only)
    with Output("sim shrink", format) as out:
        from sexton.sim.narrator import clock
        from sexton.sim.run import START_MS
        from sexton.sim.shrinking import Progress, shrink

        last: Progress | None = None
        with out.progress("shrinking") as advance:
            for last in shrink(replay):
                advance(1)
                if last.best is not None:
                    faults_left, hours_left = len(last.best.faults), last.best.replay.options.hours
                    out.say(
                        f"run {last.runs}: tried {last.tried};"
                        f" faults left: {faults_left}, hours: {hours_left}"
                    )
        assert last is not None
        best = last.best
        if best is None:
            out.say(f"seed {seed} does not fail")
            out.summarize(runs=last.runs, faults=None, hours=None)
            return
        rows = [(number, clock(at_ms - START_MS), what) for number, at_ms, what in best.faults]
        out.rows("faults", FAULTS, rows)
        report_violation(out, best.replay, best.violation)
        out.summarize(runs=last.runs, faults=len(rows), hours=best.replay.options.hours)
