"""`sexton cluster kill`: a broker is gone, at once and without a word."""

from __future__ import annotations

from sexton.cli.cluster_act import act
from sexton.cli.cluster_reach import BrokerArgument, DataOption
from sexton.cli.options import FormatOption
from sexton.cli.writers import Format

EXAMPLES = (
    ("Kill broker 2", "sexton cluster kill 2"),
    ("In a cluster that is not in the default place", "sexton cluster kill 2 --data ./kafka"),
)


def command(
    broker: BrokerArgument, data: DataOption = None, format: FormatOption = Format.table
) -> None:
    """Kill a broker of a running `sexton up` at once, as kill -9 would.

    Nothing is closed and nobody is told. Other brokers take over what it led once the controller
    has missed it for `broker.session.timeout.ms`. Records acknowledged with acks=all are not lost.
    """
    act("kill", broker, data, format)
