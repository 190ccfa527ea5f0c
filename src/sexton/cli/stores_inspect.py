"""`sexton stores inspect`: what a local store holds, and up to where."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import SextonError
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.log.inspect.rendering import Renderer, Rendering
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.stores.verifying import Place, Summary

EXAMPLES = (
    ("Show all stores in a state directory", "sexton stores inspect state"),
    (
        "Show the first keys of one store",
        "sexton stores inspect state/word-counts/counts-0 --entries 20",
    ),
)
COLUMNS = (
    Column("store"), number("position"), number("input_position"), number("keys"),
    number("bytes"), Column("caught_up"), Column("cluster"),
)  # fmt: skip
ENTRIES = (Column("store"), Column("key"), Column("value"))


def command(
    path: Annotated[Path, typer.Argument(help="A state directory, or one store in it.")],
    count: Annotated[
        int, typer.Option("--entries", metavar="N", help="Show the first N keys as well.", min=0)
    ] = 0,
    value_format: Annotated[
        Rendering, typer.Option("--value-format", help="How to show keys and values.")
    ] = Rendering.auto,
    format: FormatOption = Format.table,
) -> None:
    """Show local stores: each one's changelog, its position there, and what it contains.

    A store is opened read-only, whether or not an instance uses it. `caught up` is when it last
    lacked nothing; if that is longer ago than the changelog keeps tombstones, the store will be
    rebuilt.
    """
    from sexton.stores.verifying import entries, places_in

    with Output("stores inspect", format) as out:
        found = [each for place in places_in(path) if (each := _summary(out, place))]
        out.rows("stores", COLUMNS, map(_row, found))
        if count:
            shown = Renderer(value_format, most_bytes=200)
            rows = [
                (each.place.name, shown(key), shown(value))
                for each in found
                for key, value in islice(entries(each.place), count)
            ]
            out.rows("entries", ENTRIES, rows)
        out.summarize(stores=len(found))


def _summary(out: Output, place: Place) -> Summary | None:
    """None: it cannot be read, and is named; the others are shown all the same."""
    from sexton.stores.verifying import summarize

    try:
        return summarize(place)
    except SextonError as error:
        store_skipped(out, place, error)
        return None


def store_skipped(out: Output, place: Place, error: SextonError) -> None:
    from sexton.stores.disks import DamagedStore

    if isinstance(error, DamagedStore):
        remedy = "stop the instance and remove this directory: it is rebuilt from its changelog"
        out.incomplete(str(place.path), f"{error.why}; {remedy}")
    else:
        out.skipped(error)


def _row(found: Summary) -> Row:
    checkpoint = found.checkpoint
    when = None
    if checkpoint is not None and checkpoint.caught_up_ms:
        at = datetime.fromtimestamp(checkpoint.caught_up_ms / 1000, UTC)
        when = f"{at:%Y-%m-%d %H:%M:%S}Z"
    return (
        found.place.name,
        None if checkpoint is None else checkpoint.position,
        found.input_position,
        found.keys,
        found.size_bytes,
        when,
        None if checkpoint is None else checkpoint.lineage.cluster_id,
    )
