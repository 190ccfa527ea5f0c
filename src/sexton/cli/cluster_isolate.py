"""`sexton cluster isolate`: a broker that clients reach and other brokers do not."""

from __future__ import annotations

from sexton.cli.cluster_act import act
from sexton.cli.cluster_reach import BrokerArgument, DataOption
from sexton.cli.options import FormatOption
from sexton.cli.writers import Format

EXAMPLES = (("Cut broker 2 off", "sexton cluster isolate 2"),)


def command(
    broker: BrokerArgument, data: DataOption = None, format: FormatOption = Format.table
) -> None:
    """Cut a broker of a running `sexton up` off from all other nodes, but not from clients.

    It keeps answering clients from what it has, and can replicate nothing, until `sexton cluster
    heal`.
    """
    act("isolate", broker, data, format)
