"""The options of `sexton up`: where it listens, what it keeps, how it behaves and what it says."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sexton.cli.options import Policy


class LogFormat(StrEnum):
    text = "text"
    json = "json"


class LogLevel(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


BrokersOption = Annotated[
    int | None,
    typer.Option(
        "--brokers", help="How many; by default as many as last time, or 3.", min=1, max=100
    ),
]

HostOption = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")
]

PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        help="Of the first broker, the others follow; 0: any that are free. By default those "
        "of last time, or 9092 and the next ones, or any.",
        min=0,
        max=65535,
    ),
]

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Where everything is kept; by default $SEXTON_DATA, or sexton/cluster in "
        "~/.local/share.",
    ),
]

PolicyOption = Annotated[
    Policy | None,
    typer.Option(
        "--policy",
        help="How replicas clean: coordinated, or independent as Apache Kafka does.",
    ),
]

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="OPTION=VALUE",
        help="A Kafka broker option, for all brokers; may be given several times.",
    ),
]

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A properties file of Kafka broker options."),
]

AdvertisedHostOption = Annotated[
    str | None,
    typer.Option(
        "--advertised-host",
        metavar="NAME",
        help="What clients are told in place of --host; needed for 0.0.0.0.",
    ),
]

InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Listen beyond this machine although clients need not authenticate.",
    ),
]

MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        help="Serve Prometheus metrics there; 0: any that is free.",
        min=0,
        max=65535,
    ),
]

MetricsHostOption = Annotated[
    str,
    typer.Option("--metrics-host", metavar="ADDRESS", help="The address for --metrics-port."),
]

LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="Of the log on stderr.")]

LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="What is worth a line.")]
