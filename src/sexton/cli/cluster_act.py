"""What the commands share that do something to one broker of a running `sexton up`."""

from __future__ import annotations

from pathlib import Path

from sexton.cli.cluster_reach import control_of
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

STATES = (number("broker"), Column("state"))


def act(verb: str, broker: int | None, data: Path | None, format: Format) -> None:
    """Asks for it, and shows in which state the broker is now."""
    with Output(f"cluster {verb}", format) as out, control_of(data) as control:
        answer = control.ask(verb, broker=broker)
        rows = answer.get("brokers", [answer])
        out.rows("brokers", STATES, [(row["broker"], row["state"]) for row in rows])
