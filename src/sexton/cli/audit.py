"""`sexton audit`: do the replicas agree?"""

from __future__ import annotations

import typer

from sexton.base.errors import ConfigError
from sexton.cli.audit_options import (
    AllCompactedOption,
    BaselineOption,
    HtmlOption,
    InternalOption,
    MaxOption,
    MetricsOption,
    ParquetOption,
    PathOption,
    ResumeOption,
    SampleOption,
    ShowKeysOption,
    SinceOption,
    TopicOption,
    WatchOption,
    WhatArgument,
    WriteBaselineOption,
)
from sexton.cli.engines import THIS_MACHINE, EngineOption, MasterOption, engine_for
from sexton.cli.options import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    FormatOption,
    IntervalOption,
    SettingsOption,
    client_settings,
    refuse_interval,
)
from sexton.cli.writers import Format

EXAMPLES = (
    ("Audit one topic of the cluster that `sexton up` runs", "sexton audit orders"),
    (
        "Audit one partition of a topic in any Kafka cluster",
        "sexton audit orders:3 -b localhost:9092",
    ),
    (
        "Audit every compacted topic at a limited rate, and write a report to read",
        "sexton audit -b kafka:9092 --all-compacted --max-mb-per-s 20 --html audit.html",
    ),
    (
        "Every night, report new findings to a program",
        "sexton audit -b kafka:9092 --all-compacted --baseline known.json --format json",
    ),
    (
        "Audit on a Spark cluster",
        "sexton audit -b kafka:9092 --all-compacted --engine spark --master spark://host:7077",
    ),
    ("Audit copies of data directories, offline", "sexton audit --path broker-1/ --path broker-2/"),
)
EXIT_CODES = (
    "0 the replicas agree, 1 they do not, or the audit failed, 2 wrong usage, 3 a replica "
    "was not read."
)


def command(
    context: typer.Context,
    what: WhatArgument = None,
    bootstrap: BootstrapOption = None,
    topic: TopicOption = None,
    all_compacted: AllCompactedOption = False,
    internal: InternalOption = False,
    path: PathOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    engine: EngineOption = None,
    master: MasterOption = THIS_MACHINE,
    max_mb_per_s: MaxOption = None,
    since: SinceOption = None,
    sample_partitions: SampleOption = None,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = None,
    html: HtmlOption = None,
    parquet: ParquetOption = None,
    show_keys: ShowKeysOption = False,
    resume: ResumeOption = None,
    watch: WatchOption = False,
    interval: IntervalOption = "1h",
    metrics_port: MetricsOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Read every replica of a topic from its own broker and report where they disagree.

    Writes nothing to the cluster and moves no leader. Needs the rights to DESCRIBE and READ the
    topics, to DESCRIBE_CONFIGS, and to DESCRIBE transactional ids. Every suspicion is checked again
    before it is reported.
    """
    from sexton.cli.audit_run import Request, run_audit

    if metrics_port is not None and not watch:
        hint = "add --watch, or leave it out"
        raise ConfigError("--metrics-port", "has no effect without --watch", hint)
    if not watch:
        refuse_interval(context, "--watch")
    if path and (bootstrap or settings or command_config or data):
        why = "does not go with --path: no broker is asked"
        raise ConfigError("-b, -X, --command-config, --data", why, "audit the one, then the other")
    request = Request.of(
        [*(what or ()), *(topic or ())],
        None if path else client_settings(bootstrap, settings, command_config, data),
        all_compacted=all_compacted,
        internal=internal,
        paths=tuple(path or ()),
        engine=engine_for(engine, master),
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
        command_config=command_config,
    )
    run_audit(request, format, interval if watch else None, metrics_port)
