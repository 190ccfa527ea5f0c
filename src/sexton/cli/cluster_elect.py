"""`sexton cluster elect`: another leader, now."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError, PeerError
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
    places_named,
)
from sexton.cli.consent import YesOption, consent
from sexton.cli.naming import place_named
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.base.partitions import TopicPartition
    from sexton.client.admin import Election
    from sexton.client.client import Client

EXAMPLES = (
    ("Make broker 3 lead a partition", "sexton cluster elect orders:0 --leader 3"),
    ("Give every partition its preferred leader, as after a restart", "sexton cluster elect --all"),
    (
        "Accept the loss of records where no replica in sync is left",
        "sexton cluster elect orders:0 --unclean",
    ),
)
ELECTED = (Column("topic"), number("partition"), number("leader"))
PATIENCE_S = 30.0


def command(
    partitions: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC:PARTITION", help="The partitions; or give --all."),
    ] = None,
    leader: Annotated[
        int | None,
        typer.Option(
            "--leader", help="Elect this broker, by making its replica the preferred one.", min=0
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Elect leaders for all partitions.")] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="If no replica in sync can lead, elect another, after asking: records are lost.",
        ),
    ] = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Elect leaders: the preferred ones, a given one, or one that is not in sync.

    The preferred leader is the first of a partition's replicas. `--leader` only changes their
    order: no data is moved.
    """
    if bool(partitions) == every:
        raise ConfigError("TOPIC:PARTITION or --all", "one of them is needed", "as in orders:0")
    if leader is not None and (every or unclean):
        raise ConfigError("--leader", "does not go with --all or --unclean", "name partitions")
    chosen = [place_named(text) for text in partitions or ()]
    wish = Wish(None if every else chosen, leader, unclean)
    with Output("cluster elect", format) as out:
        if unclean:
            where = "all partitions without a leader" if every else ", ".join(map(str, chosen))
            consent("cluster elect", f"elect replicas that may miss records in {where}", yes)
        reach = Reach(bootstrap, settings, command_config, data)
        rows, failed = reach.with_client(partial(_elect, wish))
        out.rows("partitions", ELECTED, rows)
        for election in failed:
            out.incomplete(str(election.partition), election.failed or "")
        out.summarize(elected=len(rows), failed=len(failed))


@dataclass(frozen=True, slots=True)
class Wish:
    partitions: list[TopicPartition] | None  # None: all there are
    leader: int | None  # None: the preferred one
    unclean: bool


async def _elect(wish: Wish, client: Client) -> tuple[list[Row], list[Election]]:
    """Who leads where it went well, and where it did not."""
    from sexton.client import admin

    chosen, leader = wish.partitions or [], wish.leader
    await places_named(client, chosen)
    if leader is not None:
        await _prefer(client, chosen, leader)
    kind = admin.UNCLEAN if wish.unclean else admin.PREFERRED
    elections = await admin.elect(client, wish.partitions, kind)
    failed = [election for election in elections if election.failed]
    if leader is not None and not failed:
        await _until_led(client, chosen, leader)
    topology = await client.topology()
    named = wish.partitions is not None
    went_well = [e.partition for e in elections if e.elected or (named and not e.failed)]
    return [(*at, topology.place(at).leader) for at in sorted(went_well)], failed


async def _prefer(client: Client, partitions: list[TopicPartition], leader: int) -> None:
    from sexton.client import admin

    wanted = {}
    for at in partitions:
        place = await client.place(at)
        if leader not in place.isr:
            why = f"has no replica in sync on broker {leader}"
            raise ConfigError(str(at), why, f"in sync: {', '.join(map(str, place.isr))}")
        if place.replicas[0] != leader:
            wanted[at] = (leader, *(node for node in place.replicas if node != leader))
    if wanted:
        await admin.reassign(client, wanted)


async def _until_led(client: Client, partitions: list[TopicPartition], leader: int) -> None:
    """What a broker says of leaders may be a moment old."""
    deadline = time.monotonic() + PATIENCE_S
    for at in partitions:
        while (await client.place(at)).leader != leader:
            if time.monotonic() > deadline:
                raise PeerError(str(at), f"broker {leader} does not lead within {PATIENCE_S:g} s")
            await asyncio.sleep(0.01)
