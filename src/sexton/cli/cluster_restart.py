"""`sexton cluster restart`: a broker comes back, on the files it had."""

from __future__ import annotations

from sexton.cli.cluster_act import act
from sexton.cli.cluster_reach import BrokerArgument, DataOption
from sexton.cli.options import FormatOption
from sexton.cli.writers import Format

EXAMPLES = (("Bring broker 2 back after `kill`", "sexton cluster restart 2"),)


def command(
    broker: BrokerArgument, data: DataOption = None, format: FormatOption = Format.table
) -> None:
    """Restart a broker of a running `sexton up`, stopping it first if it is running.

    Returns when the broker is back in the cluster; its replicas may take longer to catch up.
    """
    act("restart", broker, data, format)
