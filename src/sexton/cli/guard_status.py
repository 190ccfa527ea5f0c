"""`sexton guard status`: what is frozen, why, and what needs a person."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import typer

from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
    WatchOption,
    interval_s,
)
from sexton.cli.guard_reach import (
    DEFAULT_MEMORY,
    MemoryOption,
    config_of,
    looked,
    show,
    view_of,
    with_daemon,
)
from sexton.cli.live import watch
from sexton.cli.options import FormatOption, IntervalOption, refuse_interval
from sexton.cli.output import Output
from sexton.cli.writers import Format

EXAMPLES = (
    ("Show the cluster that `sexton up` runs", "sexton guard status"),
    ("Watch topics being frozen and thawed", "sexton guard status --watch"),
    ("Show any Kafka cluster, for a program", "sexton guard status -b kafka:9092 --format json"),
)
INTERVAL = "2s"  # a look takes about one: it makes sure of what it sees


def command(
    context: typer.Context,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    memory_topic: MemoryOption = DEFAULT_MEMORY,
    watching: WatchOption = False,
    interval: IntervalOption = INTERVAL,
    format: FormatOption = Format.table,
) -> None:
    """Show every compacted topic: whether it is frozen, why, and what a thaw will restore.

    Reads the cluster and the notes of all guards, and changes nothing; no guard needs to run.
    """
    reach = Reach(bootstrap, settings, command_config, data)
    config = replace(config_of(), durable_hold=True)
    if watching:
        look = partial(with_daemon, reach, config, memory_topic, looked)
        watch(lambda: view_of(look()), interval_s(interval), format)
        return
    refuse_interval(context, "--watch")
    with Output("guard status", format, reached=reach.options) as out:
        show(out, with_daemon(reach, config, memory_topic, looked))
