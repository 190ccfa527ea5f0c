"""`sexton guard status`: what is frozen, why, and what needs a person."""

from __future__ import annotations

from dataclasses import replace

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
    looked,
    show,
    with_daemon,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format

EXAMPLES = (
    ("Of the cluster that `sexton up` runs", "sexton guard status"),
    ("Of any Kafka, for a program", "sexton guard status -b kafka:9092 --format json"),
)


def command(
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    memory_topic: MemoryOption = DEFAULT_MEMORY,
    format: FormatOption = Format.table,
) -> None:
    """Show every compacted topic: whether it is frozen, why, and what is to be set back.

    It reads the cluster and the notes of all guards, and changes nothing; no guard need run.
    """
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("guard status", format) as out:
        config = replace(config_of(), durable_hold=True)

        show(out, with_daemon(reach, config, memory_topic, looked))
