"""Which cluster do the `cluster` commands mean, and how is it reached?

Without `-b` it is the one that `sexton up` runs in `--data`, or in the usual place: its control
socket tells what Kafka's protocol does not know, and its addresses are written down beside it. With
`-b` it is any Kafka, and everything goes over Kafka's protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.cli.options import (
    BOOTSTRAP_SERVERS,
    BootstrapOption,
    CommandConfigOption,
    SettingsOption,
    client_settings,
    merged_settings,
)

if TYPE_CHECKING:
    from sexton.broker.control import Control
    from sexton.client.client import Client

__all__ = ["BootstrapOption", "CommandConfigOption", "SettingsOption"]

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_MS = 3_000

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The data directory of the `sexton up` that is meant, if not the usual one.",
    ),
]

BrokerArgument = Annotated[int, typer.Argument(help="The broker's number.", min=1)]

TopicArguments = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC", help="Only these topics.")
]

WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Stay, and show what changes, until Ctrl-C.")
]

IntervalOption = Annotated[
    float, typer.Option("--interval", help="Seconds between two looks of --watch.", min=0.1)
]


def home_of(data: Path | None) -> Path:
    from sexton.broker.home import default_home

    return (data or default_home()).absolute()


def control_of(data: Path | None) -> Control:
    """The control socket of a running `sexton up`."""
    from sexton.broker.control import Control

    return Control(home_of(data))


@dataclass(frozen=True, slots=True)
class Reach:
    """What was said about the cluster that is meant."""

    bootstrap: str | None = None
    settings: Sequence[str] | None = None
    command_config: Path | None = None
    data: Path | None = None

    @property
    def is_ours(self) -> bool:
        """Nobody named a broker: it is the cluster of `sexton up`."""
        return self.bootstrap is None and not self._named()

    def _named(self) -> str | None:
        given = merged_settings(self.settings, self.command_config)
        return given.get(BOOTSTRAP_SERVERS)

    def client_settings(self) -> dict[str, str]:
        """Kafka's client settings, with the brokers that were named or those of `sexton up`."""
        if self.is_ours:
            with control_of(self.data) as control:
                servers = str(control.ask("addresses")["bootstrap_servers"])
            return client_settings(servers, self.settings, self.command_config)
        if self.data is not None:
            raise ConfigError("--data", "names another cluster than -b", "give one of them")
        return client_settings(self.bootstrap, self.settings, self.command_config)

    def with_client(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Runs `work` with a client of the cluster."""
        from sexton.client.client import Client
        from sexton.client.connection import ClientConfig
        from sexton.client.settings import client_config

        settings = self.client_settings()
        config = client_config(
            settings,
            ClientConfig(
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                socket_connection_setup_timeout_ms=CONNECT_TIMEOUT_MS,
            ),
        )

        async def run() -> T:
            async with Client(settings[BOOTSTRAP_SERVERS], config) as client:
                return await work(client)

        return asyncio.run(run())


def partition_named(text: str) -> TopicPartition:
    """`orders-0`, as Kafka names a partition's directory."""
    try:
        return TopicPartition.from_directory(text)
    except ConfigError:
        raise ConfigError(text, "is not TOPIC-PARTITION", "as in orders-0") from None


def numbers(nodes: Sequence[int]) -> str:
    """Brokers in one cell, in their order."""
    return ",".join(map(str, nodes))


Json = dict[str, Any]
