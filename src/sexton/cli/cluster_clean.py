"""`sexton cluster clean`: compaction now, not when it is worth it."""

from __future__ import annotations

from typing import Annotated

import typer

from sexton.cli.cluster_reach import DataOption, TopicArguments, control_of
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

EXAMPLES = (
    ("Clean every compacted topic on every broker", "sexton cluster clean"),
    (
        "Clean one topic on one broker, so that replicas differ",
        "sexton cluster clean orders --broker 1",
    ),
)
PASSES = (
    Column("topic"), number("partition"), number("broker"), number("cleaned_until"),
    Column("failed"),
)  # fmt: skip


def command(
    topics: TopicArguments = None,
    broker: Annotated[
        int | None, typer.Option("--broker", help="Only on this broker.", min=1)
    ] = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Clean compacted topics of a running `sexton up` now, whether dirty enough or not.

    The active segment of each log is closed first, so that all of it can be cleaned. Records that
    are not committed, too young (`min.compaction.lag.ms`) or still needed by another replica stay.
    Then the replicas tell each other how far they have cleaned; a second run removes what that
    allows.
    """
    with Output("cluster clean", format) as out, control_of(data) as control:
        passes = control.ask("clean", topics=topics or None, broker=broker)["passes"]
        names = [column.name for column in PASSES]
        out.rows("passes", PASSES, [tuple(row[name] for name in names) for row in passes])
        for row in passes:
            if row["failed"]:
                where = f"{row['topic']}-{row['partition']} on broker {row['broker']}"
                out.incomplete(where, row["failed"])
        out.summarize(passes=sum(1 for row in passes if not row["failed"]))
