"""Options that several commands share, spelled as Kafka's own tools spell them.

    def command(bootstrap: BootstrapOption, format: FormatOption = Format.table) -> None: ...

A setting can come from three places; what stands nearer to the command's name is what one meant:
`--command-config FILE` gives way to `-X key=value`, and that to `-b`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sexton.base.errors import ConfigError
from sexton.cli.properties import load_properties
from sexton.cli.writers import Format

BOOTSTRAP_SERVERS = "bootstrap.servers"

FormatOption = Annotated[
    Format,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="table for people; json (one object), jsonl (one per line), tsv for programs.",
    ),
]

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT[,...]",
        help="Brokers of the cluster to talk to.",
    ),
]

SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "-X", metavar="KEY=VALUE", help="A Kafka client setting; may be given several times."
    ),
]

CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="A Java properties file of Kafka client settings, as Kafka's own tools take it.",
    ),
]


def client_settings(
    bootstrap: str | None, settings: Sequence[str] | None, command_config: Path | None
) -> dict[str, str]:
    """Kafka's client settings from all three options, under Kafka's names."""
    merged = merged_settings(settings, command_config)
    if bootstrap is not None:
        merged[BOOTSTRAP_SERVERS] = bootstrap
    if not merged.get(BOOTSTRAP_SERVERS):
        raise ConfigError(
            "--bootstrap-servers", "is not given", "name a broker, as in -b localhost:9092"
        )
    return merged


def merged_settings(settings: Sequence[str] | None, command_config: Path | None) -> dict[str, str]:
    """The same without `-b`, whether or not they name a broker."""
    merged = load_properties(command_config) if command_config else {}
    return merged | dict(map(_parse_setting, settings or ()))


def _parse_setting(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"-X {setting}", "is not KEY=VALUE", "as in -X client.id=me")
    return key.strip(), value
