"""`sexton cluster heal`: brokers hear each other again."""

from __future__ import annotations

from typing import Annotated

import typer

from sexton.cli.cluster_act import act
from sexton.cli.cluster_reach import DataOption
from sexton.cli.options import FormatOption
from sexton.cli.writers import Format

EXAMPLES = (
    ("Heal the whole network", "sexton cluster heal"),
    ("Reconnect broker 2", "sexton cluster heal 2"),
)


def command(
    broker: Annotated[
        int | None, typer.Argument(help="Only this broker. Default: all of them.", min=1)
    ] = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Reconnect brokers that `isolate` cut off.

    Brokers that are down or paused stay so.
    """
    act("heal", broker, data, format)
