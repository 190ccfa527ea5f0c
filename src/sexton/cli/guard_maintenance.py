"""`sexton guard maintenance`: everything is frozen before brokers are restarted one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.guard_reach import (
    DEFAULT_MEMORY,
    MemoryOption,
    config_of,
    done,
    looked,
    more_than_none,
    show,
    tell_unfinished,
    with_daemon,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from sexton.guard.daemon import Daemon
    from sexton.guard.status import Status

EXAMPLES = (
    ("Before a rolling restart", "sexton guard maintenance --for 2h -b kafka:9092"),
    ("End it early", "sexton guard maintenance --off -b kafka:9092"),
)
_ON_THE_WAY = ("freezing", "thawing", "unfrozen")


def command(
    duration: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="How long, such as 2h.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="End it now.")] = False,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    memory_topic: MemoryOption = DEFAULT_MEMORY,
    format: FormatOption = Format.table,
) -> None:
    """Freeze every compacted topic for a while, before brokers are restarted.

    A running guard thaws them when the time is over and all replicas are in sync. Without one they
    stay frozen until `guard run --once` or `guard thaw --all`.
    """
    if (duration is None) == (not off):
        raise ConfigError("--for or --off", "say for how long, or end it", "as in --for 2h")
    lasts_ms = 0 if duration is None else more_than_none(duration, "--for", "2h")
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("guard maintenance", format, reached=reach.options) as out:
        config = replace(config_of(hold="0s", reapply=not off), durable_hold=True)

        async def order(daemon: Daemon) -> tuple[Status, set[str]]:
            from sexton.machines.guard_notes import Maintenance

            if off and not await daemon.memory.exists():
                return await looked(daemon), set()  # nobody has ever asked for it
            await daemon.memory.ensure()
            until_ms = daemon.now_ms() + lasts_ms if lasts_ms else 0
            await daemon.memory.remember([Maintenance(until_ms)])
            return await done(daemon), _not_frozen(daemon)

        status, not_frozen = with_daemon(reach, config, memory_topic, order)
        show(out, status)
        if off:
            tell_unfinished(out, status)
            return
        out.incomplete_parts(
            (topic.topic, f"is {topic.state}")
            for topic in status.topics
            if topic.topic in not_frozen or topic.state in _ON_THE_WAY
        )


def _not_frozen(daemon: Daemon) -> set[str]:
    """Topics that should be: a restart has to wait. Brokers may not agree about their options, and
    then nothing is even noted."""
    from sexton.machines.guard_decisions import is_frozen

    return {
        name
        for name, watched in daemon.guard.topics.items()
        if watched.sight.replicated
        and (watched.options is None or watched.options.compacted)
        and not (watched.options is not None and is_frozen(watched.options))
    }
