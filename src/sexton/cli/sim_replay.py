"""`sexton sim replay`: one seed again, told as a story."""

from __future__ import annotations

from dataclasses import astuple, fields

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
    ("Tell the story of seed 17", "sexton sim replay 17"),
    ("The same without two of its faults", "sexton sim replay 17 --without 4,9"),
    (
        "Replay what `sexton sim shrink` has found",
        "sexton sim replay 17 --hours 9 --policy independent --only 2,6",
    ),
    (
        "Show only what was done to one broker",
        "sexton sim replay 17 --format tsv | grep 'broker 2'",
    ),
)
STEPS = (Column("time"), number("at_ms"), Column("what"))
TEXT_COLUMNS = ("partition", "role", "in_sync")


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
    """Replay one seed and tell its story: faults, elections, cleaning, and how it ended.

    The same seed and options always give the same story, byte for byte. If the run fails, the state
    of every replica involved follows, then the violation and all options.
    """
    replay = chosen_replay(seed, hours, policy, faults, settings, without, only)
    with Output("sim replay", format) as out:
        from sexton.sim.narrator import Held, clock, narrated, replicas_at_end

        steps: list[tuple[str, int, str]] = []

        def story(at_ms: int, what: str) -> None:
            if format is Format.table:
                out.say(f"{clock(at_ms)}  {what}")
            else:
                steps.append((clock(at_ms), at_ms, what))

        run = narrated(replay, story)
        result = run.go()
        if format is not Format.table:
            out.rows("steps", STEPS, steps)
        if result.violation is not None:
            columns = [
                Column(each.name) if each.name in TEXT_COLUMNS else number(each.name)
                for each in fields(Held)
            ]
            out.rows("replicas", columns, [astuple(held) for held in replicas_at_end(run)])
            report_violation(out, replay, result.violation)
            if run.traceback:
                out.say(run.traceback.rstrip())
        out.summarize(
            simulated_hours=round(result.hours, 1),
            events=result.events,
            faults=len(run.injected),
            passes=result.counts.passes,
            elections=result.counts.elections,
            violation=result.violation.kind if result.violation else None,
        )
