"""What the `sim` commands share: how a run is chosen, and how its failure is told.

Modules of the simulator load numba, so they are imported when a command runs, not for its help.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.findings import Finding
from sexton.cli.options import Policy
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.findings import INDENT

if TYPE_CHECKING:
    from sexton.sim.checks import Violation
    from sexton.sim.replay import Replay

HOURS = 72


SeedArgument = Annotated[int, typer.Argument(help="The run: a seed decides everything.")]

HoursOption = Annotated[
    int,
    typer.Option(
        "--hours",
        help="Simulated hours with clients and faults, not counting the healing after them.",
        min=1,
    ),
]

PolicyOption = Annotated[
    Policy,
    typer.Option(
        "--policy",
        help="How replicas clean: coordinated, or independent as in Apache Kafka.",
    ),
]

FaultsOption = Annotated[
    str | None,
    typer.Option(
        "--faults",
        metavar="KIND[,...]",
        help="Only these kinds of faults instead of the seed's choice; '' for none.",
    ),
]

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Override one of the seed's options; repeatable.",
    ),
]

WithoutOption = Annotated[
    str | None,
    typer.Option("--without", metavar="N[,...]", help="Leave out the faults with these numbers."),
]

OnlyOption = Annotated[
    str | None,
    typer.Option("--only", metavar="N[,...]", help="Leave out all other faults."),
]


def chosen_replay(
    seed: int,
    hours: int,
    policy: Policy,
    faults: str | None,
    settings: list[str] | None,
    without: str | None,
    only: str | None,
) -> Replay:
    from sexton.sim.replay import Replay, left_out, replay_options

    options = replay_options(seed, hours, policy.value, faults, settings or ())
    return Replay(options, left_out(options, without, only))


def report_violation(out: Output, replay: Replay, violation: Violation) -> None:
    """The finding, every option of the run, and the command that makes it happen again."""
    from sexton.sim.narrator import violation_clock

    shown = asdict(replay.options) | {"faults": ",".join(replay.options.faults)}
    command = replay.command()
    for_people = out.format is Format.table
    out.finding(
        Finding(
            code=violation.kind,
            severity="error",
            where=f"seed {replay.options.seed}, {violation_clock(violation)}, {violation.where}",
            message=violation.what,
            evidence=shown,
            remedy=None if for_people else command,
        )
    )
    out.say(f"{INDENT}→ {command}")  # never folded: it is there to be copied
