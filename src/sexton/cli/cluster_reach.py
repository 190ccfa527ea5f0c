"""Which cluster do the `cluster` commands mean, and how is it reached?

Without `-b` it is the one that `sexton up` runs in `--data`, or in the usual place: its control
socket tells what Kafka's protocol does not know, and its addresses are written down beside it. With
`-b` it is any Kafka, and everything goes over Kafka's protocol.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sexton.base.errors import no_such_partition, no_such_topic
from sexton.cli.durations import milliseconds
from sexton.cli.options import (
    BOOTSTRAP_SERVERS,
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    SettingsOption,
    client_settings,
    control_of,
    control_or_broker,
    home_of,
    merged_settings,
)

if TYPE_CHECKING:
    from sexton.base.partitions import TopicPartition
    from sexton.client.client import Client
    from sexton.client.topology import PartitionPlace, Topology

__all__ = [
    "BootstrapOption",
    "CommandConfigOption",
    "DataOption",
    "SettingsOption",
    "control_of",
    "control_or_broker",
    "home_of",
]

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_MS = 3_000

# Brokers leave out what a user may not describe: silence must not look like health.
NONE_SEEN = "there is none, or none that this user may see (it takes DESCRIBE on topics)"

BrokerArgument = Annotated[int, typer.Argument(help="The broker's number.", min=1)]

TopicArguments = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC", help="Only these topics.")
]

WatchOption = Annotated[
    bool,
    typer.Option(
        "--watch", "-w", help="Keep running and show changes at each --interval, until Ctrl-C."
    ),
]

INTERVAL = "500ms"
SHORTEST_INTERVAL_MS = 100  # a look asks every broker


def interval_s(text: str) -> float:
    """For `--watch`."""
    span = max(milliseconds(text, "--interval"), SHORTEST_INTERVAL_MS)
    return span / 1000


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
        return self.bootstrap is None and self._named() is None

    @property
    def options(self) -> str:
        """The same cluster for a command to copy; without -X, which may hold a password."""
        given = {
            "-b": self.bootstrap,
            "--command-config": self.command_config,
            "--data": self.data,
        }
        return " ".join(f"{name} {shlex.quote(str(it))}" for name, it in given.items() if it)

    def _named(self) -> str | None:
        given = merged_settings(self.settings, self.command_config)
        return given.get(BOOTSTRAP_SERVERS)

    def client_settings(self) -> dict[str, str]:
        """Kafka's client settings, with the brokers that were named or those of `sexton up`."""
        return client_settings(self.bootstrap, self.settings, self.command_config, self.data)

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
                await client.any_broker()  # nobody there: said at once, not after all patience
                return await work(client)

        return asyncio.run(run())


def must_have(topology: Topology, *names: str) -> None:
    """What somebody named and is not there is wrong usage, said before anything is done."""
    if missing := [name for name in names if name not in topology.topics]:
        raise no_such_topic(*missing)


def must_have_partitions(topology: Topology, partitions: Sequence[TopicPartition]) -> None:
    must_have(topology, *dict.fromkeys(at.topic for at in partitions))
    for at in partitions:
        there = topology.topics[at.topic].partitions
        if at.partition not in there:
            raise no_such_partition(*at, len(there))


async def places_named(
    client: Client, partitions: Sequence[TopicPartition]
) -> list[PartitionPlace]:
    """Where the partitions live that somebody named; the same if one is not there."""
    topology = await client.topology(dict.fromkeys(at.topic for at in partitions))
    must_have_partitions(topology, partitions)
    return [topology.place(at) for at in partitions]


async def place_of(client: Client, at: TopicPartition) -> PartitionPlace:
    (place,) = await places_named(client, [at])
    return place


def numbers(nodes: Sequence[int]) -> str:
    """Brokers in one cell, in their order."""
    return ",".join(map(str, nodes))


Json = dict[str, Any]
