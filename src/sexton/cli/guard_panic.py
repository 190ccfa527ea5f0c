"""`sexton guard panic`: no topic is cleaned any more, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.findings import Finding
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.consent import YesOption, consent
from sexton.cli.guard_reach import DEFAULT_MEMORY, MemoryOption, with_client
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column

if TYPE_CHECKING:
    from sexton.client.roving import RovingClient
    from sexton.guard.panic import Panicked

EXAMPLES = (
    ("Stop all cleaning through the default of all brokers", "sexton guard panic -b kafka:9092"),
    ("Set the default back", "sexton guard panic --off -b kafka:9092"),
)
TIMEOUT_MS = 10_000
OPTIONS = (Column("option"), Column("now"), Column("before"))


def command(
    off: Annotated[bool, typer.Option("--off", help="Set the default back.")] = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    memory_topic: MemoryOption = DEFAULT_MEMORY,
    format: FormatOption = Format.table,
) -> None:
    """Stop the cleaning of all topics at once, through the default that all brokers share.

    This is one change, however many topics there are; it asks first, and --off takes it back. It
    does not reach topics with a min.compaction.lag.ms of their own, nor brokers that override the
    default for themselves: these are named. `guard freeze` reaches the topics.
    """
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("guard panic", format, reached=reach.options) as out:
        if not off:
            consent("guard panic", "stop cleaning all topics", yes)

        async def act(client: RovingClient) -> Panicked:
            from sexton.guard import panic
            from sexton.guard.memory import MemoryTopic

            memory = MemoryTopic(client, memory_topic, TIMEOUT_MS)
            return await (panic.end(client, memory) if off else panic.begin(client, memory))

        result = with_client(reach, TIMEOUT_MS, act)
        _tell(out, result)


def _tell(out: Output, result: Panicked) -> None:
    from sexton.guard.panic import DEFAULT_MAX, DEFAULT_MIN
    from sexton.machines.guard_notes import FOREVER

    rows = []
    for name, before in ((DEFAULT_MIN, result.previous.min), (DEFAULT_MAX, result.previous.max)):
        said = before or "not set"
        rows.append((name, FOREVER if result.on else said, said if result.on else FOREVER))
    out.rows("options", OPTIONS, rows)
    out.findings(
        Finding(
            "guard-panic-misses", "warning", topic,
            "it has a min.compaction.lag.ms of its own, and is cleaned all the same",
            {"min_compaction_lag_ms": value}, f"`sexton guard freeze {topic}`",
        )
        for topic, value in result.not_reached.items()
    )  # fmt: skip
    for node, value in result.brokers.items():
        out.finding(
            Finding(
                "guard-panic-misses", "warning", f"broker {node}",
                f"it has a {DEFAULT_MIN} of its own, and cleans all the same",
                {DEFAULT_MIN.replace(".", "_"): value}, "delete it from this broker's options",
            )
        )  # fmt: skip
    for what, why in result.not_seen.items():
        out.incomplete(what, why)
