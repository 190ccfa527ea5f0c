"""`sexton cluster status`: brokers, and how many partitions are well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sexton.base.errors import Refused
from sexton.cli.cluster_reach import (
    INTERVAL,
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Json,
    Reach,
    SettingsOption,
    WatchOption,
    control_or_broker,
    interval_s,
)
from sexton.cli.live import View, watch
from sexton.cli.options import BOOTSTRAP_SERVERS, FormatOption, IntervalOption, refuse_interval
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Cell, Column, Row, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.client.topology import Topology

EXAMPLES = (
    ("Show the cluster that `sexton up` runs", "sexton cluster status"),
    ("Show any Kafka cluster", "sexton cluster status --bootstrap-server localhost:9092"),
    ("Watch brokers come and go", "sexton cluster status --watch"),
)
BROKERS = (
    number("broker"), Column("host"), number("port"), Column("state"), Column("active"),
    number("leaders"), number("in_sync"), number("replicas"), number("connections"),
    number("size_bytes"),
)  # fmt: skip
_LEAST = ("connections", "size_bytes", "port", "host", "active")


def command(
    context: typer.Context,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    watching: WatchOption = False,
    interval: IntervalOption = INTERVAL,
    format: FormatOption = Format.table,
) -> None:
    """Show a cluster's brokers, what each leads and holds, and the state of its partitions.

    Without -b it shows the cluster that `sexton up` runs, and also which brokers are paused or
    isolated.
    """
    reach = Reach(bootstrap, settings, command_config, data)
    if watching:
        watch(lambda: _view(_look(reach)), interval_s(interval), format)
        return
    refuse_interval(context, "--watch")
    with Output("cluster status", format) as out:
        status = _look(reach)
        out.rows("brokers", BROKERS, _rows(status))
        out.summarize(**{k: v for k, v in status.items() if k != "brokers" and v is not None})


def _look(reach: Reach) -> Json:
    if reach.is_ours:
        with control_or_broker(reach.data) as control:
            return control.ask("status")
    return _over_kafka(reach)


def _rows(status: Json) -> list[Row]:
    return [tuple(row.get(column.name) for column in BROKERS) for row in status["brokers"]]


def _view(status: Json) -> View:
    counts = ("topics", "partitions", "under_replicated", "leaderless", "reassigning")
    heading = ", ".join(f"{name.replace('_', ' ')} {status[name]}" for name in counts)
    if status.get("controller") == "down":
        heading = f"the controller is down, {heading}"
    return View(heading, BROKERS, _rows(status), keys=1, bad=_is_bad, least=_LEAST)


def _is_bad(column: str, cell: Cell) -> bool:
    return (column == "state" and cell != "up") or (column == "active" and cell is False)


def _over_kafka(reach: Reach) -> Json:
    async def ask(client: Client) -> tuple[Topology, int | None]:
        return await client.topology(), await _moving(client)

    topology, reassigning = reach.with_client(ask)
    places = [p for topic in topology.topics.values() for p in topic.partitions.values()]
    everyone = sorted({*topology.brokers, *(node for p in places for node in p.replicas)})
    brokers = []
    for node in everyone:
        address = topology.brokers.get(node)
        brokers.append({
            "broker": node,
            "host": address and address.host,
            "port": address and address.port,
            "state": "up" if address else "away",
            "active": address is not None,
            "leaders": sum(1 for p in places if p.leader == node),
            "in_sync": sum(1 for p in places if node in p.isr),
            "replicas": sum(1 for p in places if node in p.replicas),
        })  # fmt: skip
    return {
        "bootstrap_servers": reach.client_settings()[BOOTSTRAP_SERVERS],
        "cluster_id": topology.cluster_id,
        "brokers": brokers,
        "topics": len(topology.topics),
        "partitions": len(places),
        "under_replicated": sum(1 for p in places if len(p.isr) < len(p.replicas)),
        "leaderless": sum(1 for p in places if p.leader < 0),
        "reassigning": reassigning,
    }


async def _moving(client: Client) -> int | None:
    from sexton.client import admin

    try:
        return len(await admin.moving(client))
    except Refused:
        return None  # not everybody may ask that
