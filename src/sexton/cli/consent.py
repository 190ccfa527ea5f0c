"""Before something that cannot be taken back: does a person want it?

    consent("cluster topics", "delete the topic orders", yes)

Whoever says `--yes` has answered. At a terminal the question is asked, and all but a yes leaves
everything as it is, Ctrl-C and Ctrl-D too. Where nobody can answer, as in a cron job, silence is no
consent.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from sexton.base.errors import ConfigError

YesOption = Annotated[
    bool,
    typer.Option(
        "--yes", "-y", help="Do not ask for confirmation; required where nobody can answer."
    ),
]


def consent(command: str, what: str, yes: bool, instead: str | None = None) -> None:
    """Goes on if `what` is wanted; `instead` names an option that shows it and does nothing."""
    if yes:
        return
    if not sys.stdin.isatty():
        hint = "add it if that is what you want" + (f", or use {instead}" if instead else "")
        raise ConfigError("--yes", f"is needed to {what} without asking", hint)
    if not _asked(f"{what[:1].upper()}{what[1:]}?"):
        raise ConfigError(command, "was not begun", "nothing has been changed")


def _asked(question: str) -> bool:
    """Ctrl-C and Ctrl-D are no answer: they end the command."""
    # An event loop takes Ctrl-C as the wish to cancel a task, which would wait for the answer.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo("\nnothing has been changed since the question", err=True)
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)
