"""`sexton repair`: rebuild replicas that are wrong from one that is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sexton.cli.options import (
    BootstrapOption,
    CommandConfigOption,
    FormatOption,
    SettingsOption,
    client_settings,
)
from sexton.cli.writers import Format

EXAMPLES = (
    ("See what would be done", "sexton repair orders -b kafka:9092 --dry-run"),
    ("Repair every partition of a topic", "sexton repair orders -b kafka:9092"),
    (
        "One partition, without a question, copying at most 20 MB/s",
        "sexton repair orders:3 -b kafka:9092 --yes --throttle 20",
    ),
    (
        "Keep what the wrong replicas hold, to look at it later",
        "sexton repair orders -b kafka:9092 --keep-copy wrong/",
    ),
    (
        "Where no replica is known to be right: the key was deleted",
        "sexton repair orders -b kafka:9092 --publish-tombstone customer-7",
    ),
    (
        "Or it lives, with the value that broker 2 has",
        "sexton repair orders -b kafka:9092 --keep-value customer-7 --as-on 2",
    ),
)


def command(
    what: Annotated[
        str, typer.Argument(metavar="TOPIC[:PARTITION]", help="All of a topic, or one partition.")
    ],
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it begins.")] = False,
    findings: Annotated[
        Path | None,
        typer.Option(
            "--findings",
            metavar="FILE",
            help="The answer of `sexton audit --format json`, in place of an audit now.",
        ),
    ] = None,
    throttle: Annotated[
        float | None,
        typer.Option(
            "--throttle",
            metavar="MB/S",
            help="Copy at most so fast, by Kafka's replication throttle.",
            min=0.001,
        ),
    ] = None,
    trust: Annotated[
        int | None,
        typer.Option(
            "--trust",
            metavar="BROKER",
            help="You know that this broker's copies are right, whatever the audit can tell.",
        ),
    ] = None,
    publish_tombstone: Annotated[
        list[str] | None,
        typer.Option(
            "--publish-tombstone",
            metavar="KEY",
            help="This key was deleted: write a tombstone for it, so that all replicas agree.",
        ),
    ] = None,
    keep_value: Annotated[
        list[str] | None,
        typer.Option(
            "--keep-value",
            metavar="KEY",
            help="This key lives: write its value again, so that all replicas agree.",
        ),
    ] = None,
    as_on: Annotated[
        int | None,
        typer.Option("--as-on", metavar="BROKER", help="With --keep-value: this broker's value."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="Where it is noted what was begun, if not in the usual place.",
        ),
    ] = None,
    keep_copy: Annotated[
        Path | None,
        typer.Option(
            "--keep-copy",
            metavar="DIR",
            help="Write the wrong replicas' logs there first, as segments.",
        ),
    ] = None,
    show_keys: Annotated[
        bool, typer.Option("--show-keys", help="Keys as text; otherwise digests of them.")
    ] = False,
    format: FormatOption = Format.table,
) -> None:
    """Rebuild the replicas that an audit finds wrong from one that is right, and audit again.

    Meanwhile the topic is not cleaned, a right replica leads, and never fewer replicas than
    min.insync.replicas are in sync. It may be interrupted anywhere: run it again, and it goes on
    and puts every option back as it was. Where no replica is known to be right it chooses none, and
    says what you can choose. Exit code: 0 the replicas agree now, 1 they do not, 3 a replica could
    not be read.
    """
    from sexton.cli.repair_run import Request, repair

    request = Request.of(
        what,
        client_settings(bootstrap, settings, command_config),
        dry_run=dry_run,
        yes=yes,
        findings=findings,
        throttle_bytes_per_s=None if throttle is None else int(throttle * 1_000_000),
        trusted=trust,
        tombstones=tuple(publish_tombstone or ()),
        values=tuple(keep_value or ()),
        as_on=as_on,
        state=state,
        keep_copy=keep_copy,
        show_keys=show_keys,
    )
    repair(request, format)
