"""`sexton sim faults`: what the simulator can do to a cluster."""

from __future__ import annotations

from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column

EXAMPLES = (
    ("List what --faults accepts", "sexton sim faults"),
    (
        "All kinds but one, for --faults",
        "sexton sim faults --format tsv | cut -f1 | grep -v old-disk | paste -sd,",
    ),
)
COLUMNS = (Column("fault"), Column("what"))


def command(format: FormatOption = Format.table) -> None:
    """List every kind of fault that the simulator knows.

    A seed chooses some of them; `--faults` of the other commands overrides its choice.
    """
    with Output("sim faults", format) as out:
        from sexton.sim.faults import FAULTS, describe

        out.rows("faults", COLUMNS, [(name, describe(name)) for name in FAULTS])
        out.summarize(faults=len(FAULTS))
