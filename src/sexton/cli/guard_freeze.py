"""`sexton guard freeze`: by hand, until somebody thaws it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError, PeerError, no_such_topic
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.guard_reach import (
    DEFAULT_MEMORY,
    AllOption,
    MemoryOption,
    TopicsArgument,
    chosen,
    config_of,
    done,
    show,
    with_daemon,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from sexton.guard.daemon import Daemon
    from sexton.guard.status import Status

EXAMPLES = (
    ("Freeze one topic", "sexton guard freeze orders -b kafka:9092"),
    ("Freeze all compacted topics", "sexton guard freeze --all -b kafka:9092"),
)


def command(
    topics: TopicsArgument = None,
    everything: AllOption = False,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    memory_topic: MemoryOption = DEFAULT_MEMORY,
    format: FormatOption = Format.table,
) -> None:
    """Stop topics from being cleaned until `guard thaw`; no guard thaws them before that.

    The current settings are noted first, and restored exactly. No guard needs to run.
    """
    only = chosen(topics, everything)
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("guard freeze", format, reached=reach.options) as out:
        config = replace(config_of(reapply=True), only=only, durable_hold=True)

        async def freeze(daemon: Daemon) -> tuple[Status, set[str]]:
            held = await hold(daemon, only)
            return await done(daemon), held

        status, held = with_daemon(reach, config, memory_topic, freeze)
        show(out, status)
        out.incomplete_parts(
            (topic.topic, f"is {topic.state}")
            for topic in status.topics
            if topic.topic in held and topic.state not in ("frozen", "not compacted")
        )


async def hold(daemon: Daemon, only: frozenset[str] | None) -> set[str]:
    """Notes that these are to be frozen; gives their names: with --all those that can be."""
    from sexton.machines.guard_notes import Hold

    if only is None:  # no name can be wrong, and the notes are in a compacted topic as well
        await daemon.memory.ensure()
    await daemon.round_of_looking()
    watched = daemon.guard.topics
    for name in sorted(only or ()):
        found = watched.get(name)
        if found is None:
            raise no_such_topic(name)  # or it may not be described
        if found.options is None:
            why = f"its options cannot be seen: {found.failed or 'no broker has told them'}"
            raise PeerError(f"topic {name}", why, "allow DescribeConfigs on it to this user")
        if not found.options.compacted:
            raise ConfigError(name, "is not compacted, so there is nothing to stop")
        if not found.sight.replicated:
            raise ConfigError(name, "has one replica, which has nobody to disagree with")
    holds = [
        Hold(name, True, daemon.now_ms(), found.sight.topic_id)
        for name, found in watched.items()
        if found.options is not None and found.options.compacted and found.sight.replicated
    ]
    await daemon.memory.ensure()
    await daemon.memory.remember(holds)
    return {each.topic for each in holds}
