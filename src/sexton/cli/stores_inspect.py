"""`sexton stores inspect`: what a local store holds, and up to where."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.log.inspect.rendering import Renderer, Rendering
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.stores.verifying import Summary

EXAMPLES = (
    ("All stores of a state directory", "sexton stores inspect state"),
    (
        "The first keys of one of them",
        "sexton stores inspect state/word-counts/counts-0 --entries 20",
    ),
)
COLUMNS = (
    Column("store"), number("position"), number("input_position"), number("keys"),
    number("bytes"), Column("caught_up"), Column("cluster"),
)  # fmt: skip
ENTRIES = (Column("key"), Column("value"))


def command(
    path: Annotated[Path, typer.Argument(help="A state directory, or one store in it.")],
    count: Annotated[
        int, typer.Option("--entries", metavar="N", help="Show the first N keys as well.", min=0)
    ] = 0,
    value_format: Annotated[
        Rendering, typer.Option("--value-format", help="How keys and values are shown.")
    ] = Rendering.auto,
    format: FormatOption = Format.table,
) -> None:
    """Show local stores: which changelog each is of, up to where, and what is in it.

    A store is opened read-only, whether or not an instance uses it. `caught up` is when it was last
    known to lack nothing: older than the changelog keeps tombstones, and it will be rebuilt.
    """
    from sexton.stores.verifying import entries, places_in, summarize

    with Output("stores inspect", format) as out:
        places = places_in(path)
        out.rows("stores", COLUMNS, [_row(summarize(place)) for place in places])
        if count:
            shown = Renderer(value_format, most_bytes=200)
            for place in places:
                rows = [(shown(k), shown(v)) for k, v in islice(entries(place), count)]
                out.rows("entries", ENTRIES, rows)
        out.summarize(stores=len(places))


def _row(found: Summary) -> Row:
    checkpoint = found.checkpoint
    when = None
    if checkpoint is not None and checkpoint.caught_up_ms:
        at = datetime.fromtimestamp(checkpoint.caught_up_ms / 1000, UTC)
        when = f"{at:%Y-%m-%d %H:%M:%S}Z"
    return (
        f"{found.place.application}/{found.place.task}-{found.place.partition}",
        None if checkpoint is None else checkpoint.position,
        found.input_position,
        found.keys,
        found.size_bytes,
        when,
        None if checkpoint is None else checkpoint.lineage.cluster_id,
    )
