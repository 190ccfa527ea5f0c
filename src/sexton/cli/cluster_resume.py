"""`sexton cluster resume`: a broker goes on where it stood still."""

from __future__ import annotations

from sexton.cli.cluster_act import act
from sexton.cli.cluster_reach import BrokerArgument, DataOption
from sexton.cli.options import FormatOption
from sexton.cli.writers import Format

EXAMPLES = (("Resume broker 2", "sexton cluster resume 2"),)


def command(
    broker: BrokerArgument, data: DataOption = None, format: FormatOption = Format.table
) -> None:
    """Resume a broker that was paused.

    It finds out what happened meanwhile: others may lead what it led.
    """
    act("resume", broker, data, format)
