"""`sexton repair`: rebuild replicas that are wrong from one that is right."""

from __future__ import annotations

from sexton.cli.cluster_reach import Reach
from sexton.cli.consent import YesOption
from sexton.cli.guard_reach import DEFAULT_MEMORY, MemoryOption
from sexton.cli.options import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    FormatOption,
    SettingsOption,
    client_settings,
)
from sexton.cli.repair_options import (
    AsOnOption,
    DryRunOption,
    FindingsOption,
    KeepCopyOption,
    ShowKeysOption,
    StateOption,
    ThrottleOption,
    TombstoneOption,
    TrustOption,
    ValueOption,
    WhatArgument,
)
from sexton.cli.writers import Format

EXAMPLES = (
    ("See what would be done", "sexton repair orders -b kafka:9092 --dry-run"),
    ("Repair every partition of a topic", "sexton repair orders -b kafka:9092"),
    (
        "Repair one partition without asking, copying at most 20 MB/s",
        "sexton repair orders:3 -b kafka:9092 --yes --throttle 20",
    ),
    (
        "Keep a copy of what the wrong replicas hold",
        "sexton repair orders -b kafka:9092 --keep-copy wrong/",
    ),
    (
        "Where no replica is known to be right, state that a key was deleted",
        "sexton repair orders -b kafka:9092 --publish-tombstone customer-7",
    ),
    (
        "Or that it exists, with the value that broker 2 has",
        "sexton repair orders -b kafka:9092 --keep-value customer-7 --as-on 2",
    ),
)
EXIT_CODES = (
    "0 the replicas agree now, 1 they do not, 2 wrong usage, 3 a replica could not be read."
)


def command(
    what: WhatArgument,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    findings: FindingsOption = None,
    throttle: ThrottleOption = None,
    trust: TrustOption = None,
    publish_tombstone: TombstoneOption = None,
    keep_value: ValueOption = None,
    as_on: AsOnOption = None,
    state: StateOption = None,
    keep_copy: KeepCopyOption = None,
    memory_topic: MemoryOption = DEFAULT_MEMORY,
    show_keys: ShowKeysOption = False,
    format: FormatOption = Format.table,
) -> None:
    """Rebuild replicas that an audit finds wrong from a correct one, then audit again.

    Meanwhile the topic is not cleaned, a correct replica leads, and never fewer replicas than
    min.insync.replicas are in sync. It may be interrupted at any point: run it again, and it
    continues and restores every option. Where no replica is known to be right, it picks none and
    shows your choices. A guard that holds the topic because it doubts a replica is told when all is
    well.
    """
    from sexton.cli.repair_request import Request
    from sexton.cli.repair_run import repair

    request = Request.of(
        what,
        client_settings(bootstrap, settings, command_config, data),
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
        memory_topic=memory_topic,
        show_keys=show_keys,
    )
    repair(request, format, Reach(bootstrap, settings, command_config, data).options)
