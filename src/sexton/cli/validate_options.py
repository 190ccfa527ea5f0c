"""The options of `sexton validate` that are its own, each with its help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class IsolationLevel(StrEnum):
    read_committed = "read_committed"
    read_uncommitted = "read_uncommitted"


TopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC[:PARTITION]", help="The topic, or one partition of it.")
]

# ── what has to hold ──

ValueOption = Annotated[
    str | None,
    typer.Option(
        "--value",
        metavar="EXPR",
        help="A value that must never go back for a key: json:count, int64.",
    ),
]
RisingOption = Annotated[
    bool, typer.Option("--rising", help="With --value: it must rise with every record.")
]
SequenceOption = Annotated[
    str | None,
    typer.Option(
        "--sequence",
        metavar="EXPR",
        help="A number that must grow by one with each record of a key.",
    ),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="EXPR",
        help="An id that must be unique in the whole topic: json:id, or 'key, json:seq'.",
    ),
]
ContentOption = Annotated[
    str,
    typer.Option(
        "--content", metavar="EXPR", help="What records with the same --id must agree in."
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="TOPIC",
        help="The topic this one is made from: each key's records must be in the same order, by "
        "--id.",
    ),
]
SourceIdOption = Annotated[
    str | None,
    typer.Option(
        "--source-id", metavar="EXPR", help="The id in the source's records, if not that of --id."
    ),
]
CompleteOption = Annotated[
    bool,
    typer.Option("--complete", help="With --source: each of its records must be present, by --id."),
]
SettleOption = Annotated[
    str | None,
    typer.Option(
        "--settle",
        metavar="SPAN",
        help="With --complete: do not count a source record younger than this as lost.",
    ),
]
CompareIsolationOption = Annotated[
    bool,
    typer.Option(
        "--compare-isolation",
        help="Report keys that end differently for readers of uncommitted records.",
    ),
]

# ── a table ──

TableOption = Annotated[
    Path | None,
    typer.Option(
        "--table",
        metavar="PATH",
        help="A table filled from the topic: a Parquet file, a directory of them, or Delta.",
    ),
]
TableKeyOption = Annotated[
    str, typer.Option("--table-key", metavar="COLUMN", help="The column with the key.")
]
TableValueOption = Annotated[
    str | None,
    typer.Option("--table-value", metavar="COLUMN", help="The column that must equal --value."),
]

# ── how ──

KeyOption = Annotated[
    str, typer.Option("--key", metavar="EXPR", help="What to take as a record's key.")
]
IsolationOption = Annotated[
    IsolationLevel,
    typer.Option("--isolation-level", help="Which records to judge, as consumers see them."),
]
SkipOption = Annotated[
    bool,
    typer.Option(
        "--skip-unreadable", help="Skip and count records in which an EXPR finds nothing."
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="AGE|TIME", help="Only records before then.")
]
MostKeysOption = Annotated[
    int | None,
    typer.Option(
        "--most-keys",
        help="Most keys of a partition in memory at a time, at 32 to 64 bytes each.",
        min=1000,
    ),
]
FollowOption = Annotated[
    bool,
    typer.Option("--follow", help="Keep checking new records at each --interval, until Ctrl-C."),
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Save what is known of keys and ids here, and continue from it; with or without "
        "--follow.",
    ),
]
