"""`sexton txn find-hanging`: transactions that are open too long, and that nobody will end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError, SextonError
from sexton.base.findings import Finding
from sexton.base.partitions import TopicPartition
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.txn_reach import BrokerOption, PartitionOption, TopicOption, ago, when
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.guard.repair_outcomes import OpenTransaction

EXAMPLES = (
    ("In the whole cluster", "sexton txn find-hanging -b localhost:9092"),
    (
        "In what one broker leads, and only after an hour",
        "sexton txn find-hanging -b kafka:9092 --broker-id 2 --max-transaction-timeout 60",
    ),
    ("In one topic", "sexton txn find-hanging -b localhost:9092 --topic orders"),
)
COLUMNS = (
    Column("topic"), number("partition"), number("producer_id"), number("producer_epoch"),
    number("coordinator_epoch"), number("start_offset"), Column("last_timestamp"),
    Column("ended"), Column("because"),
)  # fmt: skip

Unread = list[tuple[str, str]]  # what, why


def command(
    broker: BrokerOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    minutes: Annotated[
        float,
        typer.Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            help="Leave out what has written something within this time.",
            min=0,
        ),
    ] = 15,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Find transactions that have been open for long and that no coordinator will end.

    The leader of each partition is asked (or one broker, with --broker-id), then about what it has
    open all replicas and the coordinator. Exit code: 0 there are none, 1 there are some.
    """
    if partition is not None and topic is None:
        raise ConfigError("--partition", "goes with --topic")

    async def work(client: Client) -> tuple[list[OpenTransaction], Unread]:
        topology = await client.topology(None if topic is None else [topic])
        if topic is not None:
            topology.topic(topic)  # says if it is not there
        places = [
            place
            for each in topology.topics.values()
            for place in each.partitions.values()
            if (partition is None or place.partition.partition == partition)
            and (broker is None or broker in place.replicas)
        ]
        by_broker: dict[int, list[TopicPartition]] = {}
        for place in places:
            asked = place.leader if broker is None else broker
            by_broker.setdefault(asked, []).append(place.partition)
        found: list[OpenTransaction] = []
        unread: Unread = []
        before_ms = int((time.time() - minutes * 60) * 1000)
        for node, partitions in sorted(by_broker.items()):
            old, silent = await _old(client, node, partitions, before_ms)
            unread += silent
            for at, producers in sorted(old.items()):
                found += await _known(client, at, producers)
        return found, unread

    with Output("txn find-hanging", format) as out:
        found, unread = Reach(bootstrap, settings, command_config, data).with_client(work)
        out.rows("transactions", COLUMNS, [_row(each) for each in found])
        for each in found:
            if each.ending.ended not in ("under way", "not open"):
                out.finding(_finding(each))
        for what, why in unread:
            out.incomplete(what, why)
        out.summarize(transactions=len(found))


Begun = set[tuple[int, int]]  # producer, and where its transaction begins


async def _old(
    client: Client, node: int, partitions: list[TopicPartition], before_ms: int
) -> tuple[dict[TopicPartition, Begun], Unread]:
    """What this broker has open and that has not written since then."""
    from sexton.client.transaction_lists import producers_of

    try:
        found, failed = await producers_of(client, node, partitions)
    except SextonError as error:
        what = f"{len(partitions)} partitions on broker {node}" if node >= 0 else "without a leader"
        return {}, [(what, f"{error.subject}: {error.why}")]
    old = {
        at: {
            (each.producer_id, each.current_txn_start_offset)
            for each in producers
            if each.current_txn_start_offset >= 0 and each.last_timestamp <= before_ms
        }
        for at, producers in found.items()
    }
    unread = [(f"{at} on broker {node}", why) for at, why in sorted(failed.items())]
    return {at: begun for at, begun in old.items() if begun}, unread


async def _known(client: Client, at: TopicPartition, begun: Begun) -> list[OpenTransaction]:
    """All that replicas and coordinators know of these."""
    from sexton.guard.repair_outcomes import open_transactions, views_of

    views = await views_of(client, await client.place(at))
    found = await open_transactions(client, at, views)
    return [each for each in found if (each.producer.producer_id, each.start) in begun]


def _row(each: OpenTransaction) -> tuple[str | int | None, ...]:
    producer = each.producer
    return (
        *each.partition, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch,
        each.start, when(producer.last_timestamp), each.ending.ended, each.ending.because,
    )  # fmt: skip


def _finding(each: OpenTransaction) -> Finding:
    code = "hanging-transaction" if each.ending.ended == "hanging" else "stuck-partition"
    return Finding(
        code,
        "error",
        str(each.partition),
        f"A transaction of producer {each.producer.producer_id} is open from offset {each.start} "
        f"on, and has written nothing for {ago(each.producer.last_timestamp)}.",
        {"ended": each.ending.ended, "because": each.ending.because},
        f"{each.ending.advice[:1].upper()}{each.ending.advice[1:]}.",
    )
