"""`sexton audit`: do the replicas agree?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sexton.base.errors import ConfigError
from sexton.cli.options import (
    BootstrapOption,
    CommandConfigOption,
    FormatOption,
    SettingsOption,
    client_settings,
)
from sexton.cli.writers import Format

EXAMPLES = (
    ("Audit one topic of the cluster of `sexton up`", "sexton audit -b localhost:9092 -t orders"),
    (
        "Audit every compacted topic, gently, and write a report to read",
        "sexton audit -b kafka:9092 --all-compacted --max-mb-per-s 20 --html audit.html",
    ),
    (
        "Every night: all findings but those that are known, for a program",
        "sexton audit -b kafka:9092 --all-compacted --baseline known.json --format json",
    ),
    (
        "On a Spark cluster",
        "sexton audit -b kafka:9092 --all-compacted --engine spark --master spark://host:7077",
    ),
    ("Copies of data directories, offline", "sexton audit --path broker-1/ --path broker-2/"),
)


class Engine(StrEnum):
    spark = "spark"
    local = "local"


def command(
    bootstrap: BootstrapOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="A topic; may be given several times."),
    ] = None,
    all_compacted: Annotated[
        bool, typer.Option("--all-compacted", help="Every topic that is compacted.")
    ] = False,
    internal: Annotated[
        bool,
        typer.Option(
            "--internal", help="__consumer_offsets and __transaction_state too, or alone."
        ),
    ] = False,
    path: Annotated[
        list[Path] | None,
        typer.Option(
            "--path",
            metavar="DIR",
            help="A copy of a data directory or partition, offline; at least two.",
        ),
    ] = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    engine: Annotated[
        Engine | None,
        typer.Option(
            "--engine",
            help="Where replicas are read: on Spark (needs sexton[spark] and Java), or local, in "
            "this process. Default: spark if it is installed.",
        ),
    ] = None,
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="Spark's master.")
    ] = "local[*]",
    max_mb_per_s: Annotated[
        float | None,
        typer.Option("--max-mb-per-s", help="Read at most so fast from each broker.", min=0.001),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="AGE|TIME",
            help="Only records from then on: 6h, 2d, or 2026-11-01T00:00Z. Quicker, and blind for "
            "what is older.",
        ),
    ] = None,
    sample_partitions: Annotated[
        float | None,
        typer.Option(
            "--sample-partitions", metavar="SHARE", help="Only this share of the partitions: 0.1."
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Findings that are known and accepted."),
    ] = None,
    write_baseline: Annotated[
        Path | None,
        typer.Option(
            "--write-baseline", metavar="FILE", help="Write all that is found as a baseline."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="A report for people, one file.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="All findings, for programs.")
    ] = None,
    show_keys: Annotated[
        bool, typer.Option("--show-keys", help="Keys as text; otherwise digests of them.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Keep here what has been read, and go on from it after an interruption.",
        ),
    ] = None,
    watch: Annotated[
        str | None,
        typer.Option("--watch", metavar="EVERY", help="Audit again and again: every 1h, say."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", help="With --watch: Prometheus metrics on this port."),
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Read every replica of a topic from its own broker, and say where they disagree.

    Nothing is written to the cluster, and no leader moves. Needed are the rights to DESCRIBE and
    READ the topics, to DESCRIBE_CONFIGS, and to DESCRIBE transactional ids. Every suspicion is
    looked at again before it is said. Exit code: 0 the replicas agree, 1 they do not, 3 a replica
    could not be read.
    """
    from sexton.cli.audit_run import Request, audit
    from sexton.cli.audit_show import show
    from sexton.cli.output import Output

    request = Request(
        settings=None if path else client_settings(bootstrap, settings, command_config),
        topics=tuple(topic or ()),
        all_compacted=all_compacted,
        internal=internal,
        paths=tuple(path or ()),
        engine=engine.value if engine else None,
        master=master,
        max_bytes_per_s=None if max_mb_per_s is None else int(max_mb_per_s * 1_000_000),
        since=since,
        sample_partitions=sample_partitions,
        baseline=baseline,
        write_baseline=write_baseline,
        html=html,
        parquet=parquet,
        show_keys=show_keys,
        resume=resume,
    )
    if metrics_port is not None and watch is None:
        raise ConfigError("--metrics-port", "there are metrics only with --watch")
    if watch is not None:
        from sexton.cli.audit_watch import audit_again

        audit_again(request, format, watch, metrics_port)
        return
    with Output("audit", format) as out:
        show(audit(request, out), request, out)
