"""The options of `sexton log dump`: which records, and how they are shown."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sexton.cli.log_dumping import SHORT_BYTES
from sexton.log.inspect.rendering import Rendering


class Outcome(StrEnum):
    committed = "committed"
    aborted = "aborted"
    open = "open"
    unknown = "unknown"
    plain = "plain"


# ── which ──

FromOption = Annotated[
    int | None, typer.Option("--from-offset", metavar="OFFSET", help="First offset to show.")
]
ToOption = Annotated[
    int | None, typer.Option("--to-offset", metavar="OFFSET", help="Last offset to show.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="AGE|TIME",
        help="Only records from then on: 6h, 2d, or 2026-11-01T00:00Z.",
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="AGE|TIME", help="Only records before then.")
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Only this key, written as --keys would show it."),
]
ProducerOption = Annotated[
    int | None, typer.Option("--producer-id", metavar="ID", help="Only records of this producer.")
]
OutcomeOption = Annotated[
    Outcome | None,
    typer.Option(
        "--outcome",
        help="Only records whose transaction ended this way; unknown: damage hides it; plain: in "
        "no transaction.",
    ),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=0, metavar="N", help="Stop after this many rows.")
]

# ── how ──

KeysOption = Annotated[Rendering, typer.Option("--keys", help="How to show keys.")]
ValuesOption = Annotated[Rendering, typer.Option("--values", help="How to show values.")]
MaxBytesOption = Annotated[
    int | None,
    typer.Option(
        "--max-bytes",
        min=0,
        metavar="N",
        help=f"Cut longer keys and values (on a terminal: {SHORT_BYTES}); 0: show all.",
    ),
]
BatchesOption = Annotated[
    bool, typer.Option("--batches", help="Show a row per batch instead of per record.")
]
WideOption = Annotated[bool, typer.Option("--wide", help="Show all columns in tables.")]
ParquetOption = Annotated[
    Path | None,
    typer.Option("--parquet", metavar="FILE", help="Write the records to a Parquet file instead."),
]
