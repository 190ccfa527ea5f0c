"""The options of `sexton repair`, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WhatArgument = Annotated[
    str, typer.Argument(metavar="TOPIC[:PARTITION]", help="A topic, or one partition of it.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")]
FindingsOption = Annotated[
    Path | None,
    typer.Option(
        "--findings",
        metavar="FILE",
        help="Use the output of `sexton audit --format json`, at most a day old.",
    ),
]
ThrottleOption = Annotated[
    float | None,
    typer.Option(
        "--throttle",
        metavar="MB/S",
        help="Limit the rate of copying, with Kafka's replication throttle.",
        min=0.001,
        max=1_000_000,
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FILE",
        help="File that records what was begun, if not the default one.",
    ),
]
KeepCopyOption = Annotated[
    Path | None,
    typer.Option(
        "--keep-copy",
        metavar="DIR",
        help="First copy the wrong replicas' logs here, as segments.",
    ),
]
ShowKeysOption = Annotated[
    bool, typer.Option("--show-keys", help="Show keys as text instead of digests.")
]

# ── what a person decides ──

TrustOption = Annotated[
    int | None,
    typer.Option(
        "--trust",
        metavar="BROKER",
        help="State that this broker's copies are right, whatever the audit can tell.",
    ),
]
TombstoneOption = Annotated[
    list[str] | None,
    typer.Option(
        "--publish-tombstone",
        metavar="KEY",
        help="State that this key was deleted: write a tombstone, so that all replicas agree.",
    ),
]
ValueOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-value",
        metavar="KEY",
        help="State that this key exists: write its value again, so that all replicas agree.",
    ),
]
AsOnOption = Annotated[
    int | None,
    typer.Option("--as-on", metavar="BROKER", help="With --keep-value: use this broker's value."),
]
