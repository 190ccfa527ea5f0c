"""The options of `sexton audit`, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WhatArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="TOPIC[:PARTITION]", help="Topics, or single partitions of them."),
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:PARTITION]",
        help="The same as an option; may be given several times.",
    ),
]
AllCompactedOption = Annotated[
    bool, typer.Option("--all-compacted", help="Every topic that is compacted.")
]
InternalOption = Annotated[
    bool,
    typer.Option("--internal", help="__consumer_offsets and __transaction_state too, or alone."),
]
PathOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--path",
        metavar="DIR",
        help="A copy of a data directory or partition, offline; at least two.",
    ),
]

# ── how ──

MaxOption = Annotated[
    float | None,
    typer.Option(
        "--max-mb-per-s", help="Read at most so fast from each broker.", min=0.001, max=1_000_000
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="AGE|TIME",
        help="Only records from then on: 6h, 2d, or 2026-11-01T00:00Z. Quicker, and blind for "
        "what is older.",
    ),
]
SampleOption = Annotated[
    float | None,
    typer.Option(
        "--sample-partitions", metavar="SHARE", help="Only this share of the partitions: 0.1."
    ),
]
ResumeOption = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="FILE",
        help="Keep here what has been read, and go on from it after an interruption.",
    ),
]

# ── what comes of it ──

BaselineOption = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", help="Findings that are known and accepted."),
]
WriteBaselineOption = Annotated[
    Path | None,
    typer.Option("--write-baseline", metavar="FILE", help="Write all that is found as a baseline."),
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="A report for people, one file.")
]
ParquetOption = Annotated[
    Path | None, typer.Option("--parquet", metavar="FILE", help="All findings, for programs.")
]
ShowKeysOption = Annotated[
    bool, typer.Option("--show-keys", help="Keys as text; otherwise digests of them.")
]
WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Audit again at each --interval, until Ctrl-C.")
]
MetricsOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", help="With --watch: Prometheus metrics on this port of 127.0.0.1."
    ),
]
