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
        help="The same as an option; repeatable.",
    ),
]
AllCompactedOption = Annotated[bool, typer.Option("--all-compacted", help="All compacted topics.")]
InternalOption = Annotated[
    bool,
    typer.Option(
        "--internal", help="Also __consumer_offsets and __transaction_state; alone, only these."
    ),
]
PathOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--path",
        metavar="DIR",
        help="A copy of a data directory or partition, to audit offline; at least two.",
    ),
]

# ── how ──

MaxOption = Annotated[
    float | None,
    typer.Option(
        "--max-mb-per-s",
        help="Limit on the rate of reading from each broker.",
        min=0.001,
        max=1_000_000,
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="AGE|TIME",
        help="Only records from then on: 6h, 2d, or 2026-11-01T00:00Z. Faster, but blind to "
        "anything older.",
    ),
]
SampleOption = Annotated[
    float | None,
    typer.Option(
        "--sample-partitions",
        metavar="SHARE",
        help="Only this share of the partitions, such as 0.1.",
    ),
]
ResumeOption = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="FILE",
        help="Save progress here, and continue from it after an interruption.",
    ),
]

# ── what comes of it ──

BaselineOption = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", help="Known and accepted findings."),
]
WriteBaselineOption = Annotated[
    Path | None,
    typer.Option("--write-baseline", metavar="FILE", help="Write all findings as a baseline."),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a report for people, in one file."),
]
ParquetOption = Annotated[
    Path | None, typer.Option("--parquet", metavar="FILE", help="Write all findings, for programs.")
]
ShowKeysOption = Annotated[
    bool, typer.Option("--show-keys", help="Show keys as text instead of digests.")
]
WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Audit again at each --interval, until Ctrl-C.")
]
MetricsOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", help="With --watch: serve Prometheus metrics on this port of 127.0.0.1."
    ),
]
