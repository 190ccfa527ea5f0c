"""The options of `sexton repair`, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WhatArgument = Annotated[
    str, typer.Argument(metavar="TOPIC[:PARTITION]", help="All of a topic, or one partition.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")]
FindingsOption = Annotated[
    Path | None,
    typer.Option(
        "--findings",
        metavar="FILE",
        help="Go by the answer of `sexton audit --format json`, at most a day old.",
    ),
]
ThrottleOption = Annotated[
    float | None,
    typer.Option(
        "--throttle",
        metavar="MB/S",
        help="Copy at most so fast, by Kafka's replication throttle.",
        min=0.001,
        max=1_000_000,
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FILE",
        help="Where it is noted what was begun, if not in the usual place.",
    ),
]
KeepCopyOption = Annotated[
    Path | None,
    typer.Option(
        "--keep-copy",
        metavar="DIR",
        help="Write the wrong replicas' logs there first, as segments.",
    ),
]
ShowKeysOption = Annotated[
    bool, typer.Option("--show-keys", help="Keys as text; otherwise digests of them.")
]

# ── what a person decides ──

TrustOption = Annotated[
    int | None,
    typer.Option(
        "--trust",
        metavar="BROKER",
        help="You know that this broker's copies are right, whatever the audit can tell.",
    ),
]
TombstoneOption = Annotated[
    list[str] | None,
    typer.Option(
        "--publish-tombstone",
        metavar="KEY",
        help="This key was deleted: write a tombstone for it, so that all replicas agree.",
    ),
]
ValueOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-value",
        metavar="KEY",
        help="This key lives: write its value again, so that all replicas agree.",
    ),
]
AsOnOption = Annotated[
    int | None,
    typer.Option("--as-on", metavar="BROKER", help="With --keep-value: this broker's value."),
]
