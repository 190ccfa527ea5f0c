"""`sexton cluster reassign`: replicas on other brokers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError, PeerError
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
    numbers,
    places_named,
)
from sexton.cli.naming import place_named
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.base.partitions import TopicPartition
    from sexton.client.client import Client

EXAMPLES = (
    ("Move a partition, and wait until it has moved", "sexton cluster reassign orders:0=3,1"),
    ("Move two at once", "sexton cluster reassign orders:0=1,2 orders:1=2,3"),
    ("List moves in progress", "sexton cluster reassign"),
    ("Cancel a move", "sexton cluster reassign orders:0 --cancel"),
)
MOVES = (
    Column("topic"), number("partition"), Column("replicas"), Column("adding"), Column("removing"),
)  # fmt: skip
PATIENCE_S = 600.0


def command(
    moves: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC:PARTITION=BROKER,...",
            help="The partition and its new brokers, preferred leader first.",
        ),
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel the moves of these partitions.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the new replicas have caught up.")
    ] = True,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Move partitions to other brokers, list moves in progress, or cancel them.

    A partition keeps its old replicas until the new ones are in sync.
    """
    wanted = dict(_cancelled(text) if cancel else _move(text) for text in moves or ())
    if cancel and not wanted:
        raise ConfigError("--cancel", "needs partitions", "name them, as in orders:0")

    async def work(client: Client) -> list[Row]:
        from sexton.client import admin

        if wanted:
            await places_named(client, list(wanted))
            await admin.reassign(client, wanted)
            if wait:
                await _until_still(client, list(wanted))
                return [await _place(client, at) for at in wanted]
        return [
            (*m.partition, numbers(m.replicas), numbers(m.adding), numbers(m.removing))
            for m in await admin.moving(client)
        ]

    with Output("cluster reassign", format) as out:
        rows = Reach(bootstrap, settings, command_config, data).with_client(work)
        out.rows("partitions", MOVES, rows)
        out.summarize(moving=0 if wanted and wait else len(rows))


async def _place(client: Client, at: TopicPartition) -> Row:
    place = await client.place(at)
    return (*at, numbers(place.replicas), None, None)


async def _until_still(client: Client, partitions: list[TopicPartition]) -> None:
    from sexton.client import admin

    deadline = time.monotonic() + PATIENCE_S
    while still := await admin.moving(client, partitions):
        if time.monotonic() > deadline:
            why = f"has been moving for more than {PATIENCE_S:g} s"
            raise PeerError(
                str(still[0].partition), why, "it goes on: check with `sexton cluster reassign`"
            )
        await asyncio.sleep(0.05)


def _move(text: str) -> tuple[TopicPartition, list[int] | None]:
    name, equals, brokers = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return place_named(name), [int(each) for each in brokers.split(",")]
    except ValueError:
        hint = "as in orders:0=1,2,3"
        raise ConfigError(text, "is not TOPIC:PARTITION=BROKER,...", hint) from None


def _cancelled(text: str) -> tuple[TopicPartition, list[int] | None]:
    return place_named(text.partition("=")[0]), None
