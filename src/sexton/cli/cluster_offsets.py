"""`sexton cluster offsets`: where every replica stands, and what it may forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import SextonError, no_such_topic
from sexton.base.findings import Finding
from sexton.cli.cluster_reach import (
    INTERVAL,
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Json,
    Reach,
    SettingsOption,
    TopicArguments,
    WatchOption,
    control_or_broker,
    interval_s,
)
from sexton.cli.live import View, watch
from sexton.cli.options import FormatOption, IntervalOption, refuse_interval
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Cell, Column, Row, number

if TYPE_CHECKING:
    from sexton.client.admin import Standing
    from sexton.client.client import Client
    from sexton.client.topology import Topology

EXAMPLES = (
    ("Show every replica of every topic", "sexton cluster offsets"),
    ("Watch MCCO, MTRO, MXFO and MXRO move", "sexton cluster offsets orders --watch"),
    (
        "Show the replicas of any Kafka, without the four",
        "sexton cluster offsets -b localhost:9092",
    ),
    (
        "Find the replica that holds its group back",
        "sexton cluster offsets orders --format json | jq '.replicas | min_by(.mcco)'",
    ),
)
REPLICAS = (
    Column("topic"), number("partition", "part"), number("broker"), Column("role"),
    Column("in_sync", short="isr"), number("leader_epoch", "epoch", spare=True),
    number("log_start", "start", spare=True), number("mtro"), number("mcco"), number("mxro"),
    number("mxfo"), number("last_stable", "LSO"), number("high_watermark", "HW"),
    number("log_end", "end"), number("size_bytes", "bytes", spare=True),
)  # fmt: skip
_LEAST = ("size_bytes", "log_start", "leader_epoch", "last_stable", "role", "log_end", "in_sync")


def command(
    context: typer.Context,
    topics: TopicArguments = None,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also __consumer_offsets and __transaction_state.")
    ] = False,
    watching: WatchOption = False,
    interval: IntervalOption = INTERVAL,
    format: FormatOption = Format.table,
) -> None:
    """Show every replica's offsets, including the four of coordinated compaction.

    All are exclusive upper bounds. MCCO: this replica is cleanly compacted below it. MTRO: the
    lowest MCCO of all replicas, below which tombstones may go. MXFO: no record below it needs a
    transaction marker here. MXRO: the lowest MXFO, below which markers may go.
    """
    reach = Reach(bootstrap, settings, command_config, data)
    if watching:
        watch(
            lambda: _view(_rows(_look(reach, topics, internal, None))), interval_s(interval), format
        )
        return
    refuse_interval(context, "--watch")
    with Output("cluster offsets", format) as out:
        found = _look(reach, topics, internal, out)
        out.rows("replicas", REPLICAS, _rows(found))
        if not found:
            out.say(f"There are no topics yet{'' if internal else ', except internal ones'}.")
        for each in found:
            if each.get("uncleanable"):
                out.finding(_uncleanable(each))


def _rows(found: list[Json]) -> list[Row]:
    return [tuple(each.get(column.name) for column in REPLICAS) for each in found]


def _uncleanable(replica: Json) -> Finding:
    where = f"{replica['topic']}-{replica['partition']} on broker {replica['broker']}"
    remedy = "fix the cause; the broker retries by itself"
    return Finding(
        "uncleanable-partition", "warning", where, str(replica["uncleanable"]), {}, remedy
    )


def _look(reach: Reach, topics: list[str] | None, internal: bool, out: Output | None) -> list[Json]:
    if not reach.is_ours:
        found = _over_kafka(reach, topics, internal, out)
    else:
        with control_or_broker(reach.data) as control:
            found = control.ask("offsets", topics=topics or None, internal=internal)["replicas"]
    missing = set(topics or ()) - {row["topic"] for row in found}
    if missing:
        raise no_such_topic(*sorted(missing))
    return list(found)


def _view(rows: list[Row]) -> View:
    return View("replicas", REPLICAS, rows, keys=3, bad=_is_bad, least=_LEAST)


def _is_bad(column: str, cell: Cell) -> bool:
    return (column == "in_sync" and cell is False) or (column == "role" and cell == "away")


# ── any Kafka ──


def _over_kafka(
    reach: Reach, topics: list[str] | None, internal: bool, out: Output | None
) -> list[Json]:
    async def gather(client: Client) -> list[Json]:
        from sexton.client import admin

        topology = await client.topology(topics)
        places = [
            place
            for topic in topology.topics.values()
            if topics or internal or not topic.internal
            for place in topic.partitions.values()
        ]
        standing: dict[tuple[str, int, int], Standing] = {}
        for node in sorted({node for place in places for node in place.replicas}):
            own = [place for place in places if node in place.replicas]
            try:
                for each in await admin.standings(client, node, own):
                    standing[(*each.partition, node)] = each
            except SextonError as error:
                if out is not None:
                    out.skipped(error)
        return _joined(topology, standing, {place.partition.topic for place in places})

    return reach.with_client(gather)


def _joined(
    topology: Topology, standing: dict[tuple[str, int, int], Standing], topics: set[str]
) -> list[Json]:
    rows = []
    for name in sorted(topics):
        for number_, place in sorted(topology.topics[name].partitions.items()):
            for node in place.replicas:
                row: Json = {
                    "topic": name,
                    "partition": number_,
                    "broker": node,
                    "role": "leader" if node == place.leader else "follower",
                    "in_sync": node in place.isr,
                    "leader_epoch": place.leader_epoch,
                }
                found = standing.get((name, number_, node))
                if found is None:
                    row["role"] = "away"
                else:
                    names = (c.name for c in REPLICAS)
                    row |= {n: getattr(found, n) for n in names if n not in row}
                    row["uncleanable"] = found.uncleanable
                rows.append(row)
    return rows
