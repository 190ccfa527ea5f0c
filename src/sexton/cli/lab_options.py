"""The options of `sexton lab run`: which scenario, where, and with what beside it."""

from __future__ import annotations

from typing import Annotated

import typer

from sexton.cli.options import Policy


def scenario_names() -> list[str]:
    from sexton.lab.divergences import LAB
    from sexton.lab.stores_eos import STORIES

    return [*LAB, *STORIES]


def _begun(incomplete: str) -> list[str]:
    """What a shell offers after TAB."""
    return [name for name in scenario_names() if name.startswith(incomplete)]


NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A scenario of `sexton lab list`.", autocompletion=_begun),
]
OnOption = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="PLACE",
        help="sim, embedded, kafka, or kafka=VERSION for any version that Maven has.",
    ),
]
PolicyOption = Annotated[
    Policy | None,
    typer.Option(
        "--policy",
        help="How replicas clean: coordinated, or independent as in Apache Kafka (the default). "
        "Not for kafka.",
    ),
]
EarlyOption = Annotated[
    bool,
    typer.Option("--early", help="Use the form that waits for no producer to expire (KIP-890)."),
]
GuardOption = Annotated[
    bool,
    typer.Option(
        "--guard",
        help="Run a guard beside it, like `sexton guard run`, and show what it does. Not for sim.",
    ),
]
FixedOption = Annotated[
    bool,
    typer.Option("--fixed", help="For the eos scenarios: run with the fix on."),
]
StepOption = Annotated[bool, typer.Option("--step", help="Wait for a key after each step.")]
