"""`sexton cluster pause`: a broker stands still and does not know it."""

from __future__ import annotations

from sexton.cli.cluster_act import act
from sexton.cli.cluster_reach import BrokerArgument, DataOption
from sexton.cli.options import FormatOption
from sexton.cli.writers import Format

EXAMPLES = (("Pause broker 2", "sexton cluster pause 2"),)


def command(
    broker: BrokerArgument, data: DataOption = None, format: FormatOption = Format.table
) -> None:
    """Pause a broker of a running `sexton up`, as SIGSTOP would, until it is resumed.

    Its connections stay open but nobody gets an answer. The others think that it is away; it does
    not.
    """
    act("pause", broker, data, format)
