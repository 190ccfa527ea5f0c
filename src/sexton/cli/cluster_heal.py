"""`sexton cluster heal`: brokers hear each other again."""

from __future__ import annotations

from typing import Annotated

import typer

from sexton.cli.cluster_act import act
from sexton.cli.cluster_reach import DataOption
from sexton.cli.options import FormatOption
from sexton.cli.writers import Format

EXAMPLES = (
    ("Mend the whole network", "sexton cluster heal"),
    ("Let broker 2 be heard again", "sexton cluster heal 2"),
)


def command(
    broker: Annotated[
        int | None, typer.Argument(help="Only this broker; by default all of them.", min=1)
    ] = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Let brokers hear each other again after `isolate`.

    Brokers that are down or paused stay so.
    """
    act("heal", broker, data, format)
