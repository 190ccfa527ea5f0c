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
        "--brokers", help="Number of brokers. Default: as many as last time, or 3.", min=1, max=100
    ),
]

HostOption = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")
]

PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        help="Port of the first broker, the next ones for the others; 0: any free ones. Default: "
        "those of last time, or 9092 and up, or any.",
        min=0,
        max=65535,
    ),
]

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Data directory. Default: $SEXTON_DATA, or sexton/cluster in ~/.local/share.",
    ),
]

PolicyOption = Annotated[
    Policy | None,
    typer.Option(
        "--policy",
        help="How replicas clean: coordinated, or independent as in Apache Kafka.",
    ),
]

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="OPTION=VALUE",
        help="A Kafka broker option, for all brokers; repeatable.",
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
        help="Address to give clients instead of --host; required for 0.0.0.0.",
    ),
]

InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Allow unauthenticated clients from beyond this machine.",
    ),
]

MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        help="Serve Prometheus metrics on this port; 0: any free one.",
        min=0,
        max=65535,
    ),
]

MetricsHostOption = Annotated[
    str,
    typer.Option("--metrics-host", metavar="ADDRESS", help="The address for --metrics-port."),
]

LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="Format of the log on stderr.")
]

LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", help="The least severe level to log.")
]
