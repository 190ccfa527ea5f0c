"""`sexton repair`: rebuild replicas that are wrong from one that is right."""

from __future__ import annotations

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
    """Rebuild the replicas that an audit finds wrong from one that is right, and audit again.

    Meanwhile the topic is not cleaned, a right replica leads, and never fewer replicas than
    min.insync.replicas are in sync. It may be interrupted anywhere: run it again, and it goes on
    and puts every option back as it was. Where no replica is known to be right it chooses none, and
    says what you can choose. A guard that holds the topic because it doubts a replica is told when
    all is well.
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
    repair(request, format)
