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
        "--value", metavar="EXPR", help="Per key, this must never go back: json:count, int64."
    ),
]
RisingOption = Annotated[
    bool, typer.Option("--rising", help="With --value: it has to rise with every record.")
]
SequenceOption = Annotated[
    str | None,
    typer.Option("--sequence", metavar="EXPR", help="Per key, this must be one more each time."),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="EXPR",
        help="This must come once in the whole topic: json:id, or 'key, json:seq'.",
    ),
]
ContentOption = Annotated[
    str,
    typer.Option(
        "--content", metavar="EXPR", help="What two records of one --id have to agree in."
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="TOPIC",
        help="The topic that this one is made from: per key, the order must be the same, by --id.",
    ),
]
SourceIdOption = Annotated[
    str | None,
    typer.Option(
        "--source-id", metavar="EXPR", help="The id in the source's records, if not as in --id."
    ),
]
CompleteOption = Annotated[
    bool,
    typer.Option("--complete", help="With --source: each of its records must be here, by --id."),
]
SettleOption = Annotated[
    str | None,
    typer.Option(
        "--settle",
        metavar="SPAN",
        help="With --complete: a record of the source that is younger is not called lost.",
    ),
]
CompareIsolationOption = Annotated[
    bool,
    typer.Option(
        "--compare-isolation", help="Which keys end otherwise for readers of uncommitted records?"
    ),
]

# ── a table ──

TableOption = Annotated[
    Path | None,
    typer.Option(
        "--table",
        metavar="PATH",
        help="A table that is filled from the topic: a Parquet file, a directory of them, Delta.",
    ),
]
TableKeyOption = Annotated[
    str, typer.Option("--table-key", metavar="COLUMN", help="The column with the key.")
]
TableValueOption = Annotated[
    str | None,
    typer.Option(
        "--table-value", metavar="COLUMN", help="The column that --value has to be equal to."
    ),
]

# ── how ──

KeyOption = Annotated[
    str, typer.Option("--key", metavar="EXPR", help="What the key of a record is.")
]
IsolationOption = Annotated[
    IsolationLevel,
    typer.Option("--isolation-level", help="Which records are judged, as consumers see them."),
]
SkipOption = Annotated[
    bool,
    typer.Option(
        "--skip-unreadable", help="Leave out, and count, records in which an EXPR finds nothing."
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="AGE|TIME", help="Only records before then.")
]
MostKeysOption = Annotated[
    int | None,
    typer.Option(
        "--most-keys", help="Of one partition in memory at a time, 32 to 64 bytes each.", min=1000
    ),
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow", help="Go on with what is written, looking at each --interval, until Ctrl-C."
    ),
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Keep here what is known of keys and ids, and go on from it; with or without"
        " --follow.",
    ),
]
