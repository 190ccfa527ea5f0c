"""`sexton cluster topics`: what there is, one topic in detail, a new one, one less."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
    TopicArguments,
    must_have,
    numbers,
)
from sexton.cli.consent import YesOption, consent
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.client.topology import Topology

EXAMPLES = (
    ("List topics", "sexton cluster topics"),
    ("See who leads and follows", "sexton cluster topics orders"),
    (
        "Create a compacted topic",
        "sexton cluster topics orders --create --partitions 3 --config cleanup.policy=compact",
    ),
    ("Delete it", "sexton cluster topics orders --delete"),
    (
        "List the topics of any Kafka cluster",
        "sexton cluster topics --bootstrap-server localhost:9092",
    ),
)
TOPICS = (
    Column("topic"), number("partitions"), number("replication_factor"),
    number("under_replicated"), number("leaderless"), Column("internal"),
)  # fmt: skip
PARTITIONS = (
    Column("topic"), number("partition"), number("leader"), number("leader_epoch"),
    Column("replicas"), Column("isr"),
)  # fmt: skip


CreateOption = Annotated[bool, typer.Option("--create", help="Create these topics.")]
DeleteOption = Annotated[bool, typer.Option("--delete", help="Delete these topics, after asking.")]
PartitionsOption = Annotated[
    int | None,
    typer.Option("--partitions", help="For --create. Default: the broker's.", min=1),
]
FactorOption = Annotated[
    int | None,
    typer.Option("--replication-factor", help="For --create. Default: the broker's.", min=1),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="OPTION=VALUE",
        help="For --create: an option of the topic; repeatable.",
    ),
]


def command(
    topics: TopicArguments = None,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    create: CreateOption = False,
    delete: DeleteOption = False,
    partitions: PartitionsOption = None,
    replication_factor: FactorOption = None,
    config: ConfigOption = None,
    yes: YesOption = False,
    format: FormatOption = Format.table,
) -> None:
    """List topics, show where their replicas are, create topics or delete them."""
    configs = _configs(config)
    if (create or delete) and not topics:
        option = "--create" if create else "--delete"
        raise ConfigError(option, "needs the name of a topic", f"as in orders {option}")
    if create and delete:
        raise ConfigError("--delete", "does not go with --create", "do one, then the other")
    if not create and (partitions or replication_factor or configs):
        why = "go with --create only"
        hint = "to create a topic: sexton cluster topics NAME --create"
        raise ConfigError("--partitions, --replication-factor, --config", why, hint)

    async def work(client: Client) -> Topology:
        from sexton.client import admin

        if topics and delete:  # all of them or none
            must_have(await client.topology(topics), *topics)
        for topic in topics or ():
            if create:
                sizes = partitions or admin.DEFAULT, replication_factor or admin.DEFAULT
                await admin.create_topic(client, topic, *sizes, configs)
            elif delete:
                await admin.delete_topic(client, topic)
        return await client.topology(None if delete else topics)

    with Output("cluster topics", format) as out:
        if delete:
            consent("cluster topics", f"delete {_called(topics or [])}", yes)
        topology = Reach(bootstrap, settings, command_config, data).with_client(work)
        if topics and not delete:
            must_have(topology, *topics)  # one that was just made may go again at once
            out.rows("partitions", PARTITIONS, _partitions(topology))
        elif not delete:
            out.rows("topics", TOPICS, _topics(topology))
            if not topology.topics:
                out.say(
                    "There are no topics yet: `sexton cluster topics NAME --create` creates one."
                )
        if delete:
            out.say(f"deleted: {', '.join(topics or ())}")
            out.summarize(deleted=len(topics or ()))


def _called(topics: list[str]) -> str:
    names = ", ".join(topics)
    if len(topics) > 1:
        return f"the topics {names} and all their records"
    return f"the topic {names} and all its records"


def _configs(given: list[str] | None) -> dict[str, str]:
    configs = {}
    for setting in given or ():
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            hint = "as in --config cleanup.policy=compact"
            raise ConfigError(f"--config {setting}", "is not OPTION=VALUE", hint)
        configs[name.strip()] = value
    return configs


def _topics(topology: Topology) -> list[Row]:
    rows: list[Row] = []
    for name, topic in sorted(topology.topics.items()):
        places = list(topic.partitions.values())
        rows.append((
            name,
            len(places),
            max((len(p.replicas) for p in places), default=0),
            sum(1 for p in places if len(p.isr) < len(p.replicas)),
            sum(1 for p in places if p.leader < 0),
            topic.internal,
        ))  # fmt: skip
    return rows


def _partitions(topology: Topology) -> list[Row]:
    return [
        (
            name,
            place.partition.partition,
            place.leader if place.leader >= 0 else None,
            place.leader_epoch,
            numbers(place.replicas),
            numbers(place.isr),
        )
        for name, topic in sorted(topology.topics.items())
        for _, place in sorted(topic.partitions.items())
    ]
