"""Options that several commands share, spelled as Kafka's own tools spell them.

    def command(bootstrap: BootstrapOption, format: FormatOption = Format.table) -> None: ...

A setting can come from three places; what stands nearer to the command's name is what one meant:
`--command-config FILE` gives way to `-X key=value`, and that to `-b`. Where nobody names a broker,
the cluster that `sexton up` runs is meant: in `--data`, or in the usual place.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError
from sexton.cli.properties import load_properties
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from sexton.broker.control import Control

BOOTSTRAP_SERVERS, BROKER_LIST = "bootstrap.servers", "metadata.broker.list"
OR_NAME_A_BROKER = (
    "start one with `sexton up`, name its --data, or name a broker: -b localhost:9092"
)


class Policy(StrEnum):
    """How replicas clean."""

    coordinated = "coordinated"
    independent = "independent"


FormatOption = Annotated[
    Format,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="table for people; json (one object), jsonl (one per line) or tsv for programs.",
    ),
]

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT[,...]",
        help="Brokers to connect to. Default: those of a running `sexton up`.",
    ),
]

SettingsOption = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="A Kafka client setting; repeatable."),
]

CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="A properties file of Kafka client settings, as for Kafka's own tools.",
    ),
]


JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="How many to process at a time. Default: one per core.",
    ),
]

IntervalOption = Annotated[
    str, typer.Option("--interval", metavar="SPAN", help="Time from one look to the next.")
]


def refuse_interval(context: typer.Context, option: str) -> None:
    """There is no next look, unless `option` is given."""
    given = context.get_parameter_source("interval")
    if given is not None and given.name == "COMMANDLINE":
        hint = f"add {option}, or leave it out"
        raise ConfigError("--interval", f"has no effect without {option}", hint)


DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Data directory of the running `sexton up`, if not the default one.",
    ),
]


def client_settings(
    bootstrap: str | None,
    settings: Sequence[str] | None,
    command_config: Path | None,
    data: Path | None = None,
) -> dict[str, str]:
    """Kafka's client settings from all options, under Kafka's names."""
    merged = merged_settings(settings, command_config)
    if bootstrap is not None:
        merged[BOOTSTRAP_SERVERS] = bootstrap
    if BOOTSTRAP_SERVERS not in merged:  # an empty one names no broker, as with `-b "$UNSET"`
        with control_or_broker(data) as control:
            merged[BOOTSTRAP_SERVERS] = str(control.ask("addresses")["bootstrap_servers"])
    elif data is not None:
        raise ConfigError("--data", "names another cluster than -b", "give only one of them")
    return merged


def must_be_writable(*files: Path | None) -> None:
    """Said before the work that is to be written there, not after it."""
    for file in filter(None, files):
        parent = file.absolute().parent
        if not parent.is_dir():
            why = "its directory does not exist"
            raise ConfigError(str(file), why, f"mkdir -p {parent}")
        if file.is_dir():
            raise ConfigError(str(file), "is a directory", "name a file in it")
        if _is_no_ordinary_file(file):
            raise ConfigError(
                str(file), "is not a regular file", "name one: it is replaced as a whole"
            )
        if not os.access(file if file.exists() else parent, os.W_OK):
            raise ConfigError(str(file), "is not writable for you", "choose another place")


def _is_no_ordinary_file(file: Path) -> bool:
    """A device, a pipe, or /dev/stdout: a report that is renamed to it would take its place."""
    if file.is_symlink() and str(file.readlink()).startswith("/proc/"):
        return True
    return file.exists() and not file.is_file()


def must_be_a_directory(path: Path | None, option: str) -> None:
    """One that is there, or that can be made."""
    if path is None:
        return
    there = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if not there.is_dir():
        why = "is a file" if there == path.absolute() else f"{there} is a file"
        raise ConfigError(f"{option} {path}", why, "name a directory")


def home_of(data: Path | None) -> Path:
    from sexton.broker.home import default_home

    return (data or default_home()).absolute()


def control_of(data: Path | None) -> Control:
    """The control socket of a running `sexton up`, for a command that is about no other Kafka."""
    from sexton.broker.control import Control

    return Control(home_of(data))


def control_or_broker(data: Path | None) -> Control:
    """The same for a command that takes `-b` too, and was given none."""
    from sexton.broker.control import Control

    return Control(home_of(data), OR_NAME_A_BROKER)


def merged_settings(settings: Sequence[str] | None, command_config: Path | None) -> dict[str, str]:
    """The same without `-b`, whether or not they name a broker."""
    from_file = _from_file(command_config) if command_config else {}
    return _with_brokers(from_file) | _with_brokers(dict(map(_parse_setting, settings or ())))


def _with_brokers(settings: dict[str, str]) -> dict[str, str]:
    """By Kafka's own name for them; to librdkafka it means the same."""
    if BROKER_LIST in settings:
        brokers = settings.pop(BROKER_LIST)
        settings.setdefault(BOOTSTRAP_SERVERS, brokers)
    return settings


def _from_file(path: Path) -> dict[str, str]:
    from sexton.client.setting_names import unknown_in_file

    found = load_properties(path)
    if unknown := unknown_in_file(found, str(path)):
        _tell_once(f"{path}: no Kafka client knows these, and they have no effect", *unknown)
    return found


@cache
def _tell_once(what: str, *names: str) -> None:
    """A command may look at its settings more than once."""
    typer.echo(f"note: {what}: {', '.join(names)}", err=True)


def _parse_setting(setting: str) -> tuple[str, str]:
    from sexton.client.setting_names import check_typed

    key, equals, value = setting.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"-X {setting}", "is not KEY=VALUE", "as in -X client.id=me")
    check_typed(key.strip(), f"-X {key.strip()}")
    return key.strip(), value
