"""`sexton txn find-hanging`: transactions that are open too long, and that nobody will end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.audit.remedies import severity
from sexton.base.errors import ConfigError, SextonError
from sexton.base.findings import Finding
from sexton.base.partitions import TopicPartition
from sexton.cli.cluster_reach import (
    NONE_SEEN,
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
    must_have,
    must_have_partitions,
)
from sexton.cli.naming import topic_and_partition
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.txn_reach import (
    BrokerOption,
    PartitionOption,
    TopicOption,
    advised,
    ago,
    called,
    must_be_named_once,
    when,
)
from sexton.cli.writers import Format
from sexton.report.audit_words import many
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.client.topology import Topology
    from sexton.guard.repair_outcomes import OpenTransaction

EXAMPLES = (
    ("Search the whole cluster", "sexton txn find-hanging -b localhost:9092"),
    (
        "Search what one broker leads, for those idle for over an hour",
        "sexton txn find-hanging -b kafka:9092 --broker-id 2 --max-transaction-timeout 60",
    ),
    ("Search one topic", "sexton txn find-hanging orders -b localhost:9092"),
)
EXIT_CODES = "0 none found, 1 some found, 2 wrong usage, 3 a broker could not be asked."
COLUMNS = (
    Column("topic"), number("partition"), number("producer_id"), number("producer_epoch"),
    number("coordinator_epoch"), number("start_offset"), Column("last_timestamp"),
    Column("ended"), Column("because"),
)  # fmt: skip

Unread = list[tuple[str, str]]  # what, why
Begun = set[tuple[int, int]]  # producer, and where its transaction begins


@dataclass(frozen=True, slots=True)
class Asked:
    """Where to look, and how long a transaction may take."""

    broker: int | None
    topic: str | None
    partition: int | None
    longest_ms: int | None  # None: as long as the cluster allows

    def __post_init__(self) -> None:
        if self.partition is not None and self.topic is None:
            raise ConfigError("--partition", "goes with --topic", "or name it as in orders:3")


@dataclass(frozen=True, slots=True)
class Found:
    hanging: list[OpenTransaction]
    under_way: int  # open for long as well, and somebody will end them
    left_out: int  # have written something within `longest_ms`
    longest_ms: int
    unread: Unread


def command(
    named: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC[:PARTITION]", help="Where to look. Default: everywhere."),
    ] = None,
    broker: BrokerOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            help="Leave out transactions that wrote something within this time. Default: the "
            "brokers' transaction.max.timeout.ms, or 15 if they do not tell.",
            min=0,
        ),
    ] = None,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Find transactions that have been open for a long time and that no coordinator will end.

    Asks the leader of each partition (or one broker, with --broker-id), then all replicas and the
    coordinator about what is open there.
    """
    if named is not None:
        must_be_named_once("TOPIC", named, "--topic and --partition", topic, partition)
        topic, partition = topic_and_partition(named)
    asked = Asked(broker, topic, partition, None if minutes is None else int(minutes * 60_000))
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("txn find-hanging", format, reached=reach.options) as out:
        found = reach.with_client(lambda client: _find(client, asked))
        if found.hanging or format is not Format.table:
            out.rows("transactions", COLUMNS, [_row(each) for each in found.hanging])
        else:
            out.say(f"No transaction hangs{', as far as could be asked' if found.unread else ''}.")
        if found.left_out:
            out.say(_left_out(found))
        out.findings(map(_finding, found.hanging))
        out.incomplete_parts(found.unread)
        out.summarize(
            transactions=len(found.hanging), under_way=found.under_way, left_out=found.left_out
        )


def _left_out(found: Found) -> str:
    verb = "was" if found.left_out == 1 else "were"
    return (
        f"{many(found.left_out, 'transaction')} wrote something within the last "
        f"{found.longest_ms / 60_000:g} min, and {verb} left out: see --max-transaction-timeout."
    )


async def _find(client: Client, asked: Asked) -> Found:
    from sexton.client.transactions import longest_transaction_ms
    from sexton.machines.repair_transactions import WILL_END

    longest_ms = asked.longest_ms
    if longest_ms is None:
        longest_ms = await longest_transaction_ms(client)
    found: list[OpenTransaction] = []
    unread: Unread = []
    left_out = 0
    by_broker = await _by_broker(client, asked)
    if not by_broker:
        unread.append(("all topics", NONE_SEEN))
    for node, partitions in sorted(by_broker.items()):
        old, recent, silent = await _old(client, node, partitions, longest_ms)
        unread += silent
        left_out += recent
        for at, begun in sorted(old.items()):
            try:
                found += await _known(client, at, begun, longest_ms)
            except SextonError as error:  # its topic was deleted, its brokers went away
                unread.append((str(at), f"{error.subject}: {error.why}"))
    silent_about = [each for each in found if not each.ending.complete]
    unread += [(called(each), each.ending.because) for each in silent_about]
    hanging = [each for each in found if each.ending.ended not in (*WILL_END, "not asked")]
    under_way = sum(each.ending.ended == "under way" for each in found)
    return Found(hanging, under_way, left_out, longest_ms, unread)


async def _by_broker(client: Client, asked: Asked) -> dict[int, list[TopicPartition]]:
    """Who is asked about what."""
    topology = await client.topology(None if asked.topic is None else [asked.topic])
    if asked.topic is not None:
        must_have(topology, asked.topic)
    if asked.topic is not None and asked.partition is not None:
        must_have_partitions(topology, [TopicPartition(asked.topic, asked.partition)])
    found: dict[int, list[TopicPartition]] = {}
    for topic in topology.topics.values():
        for place in topic.partitions.values():
            if asked.partition not in (None, place.partition.partition):
                continue
            if asked.broker is None or asked.broker in place.replicas:
                node = place.leader if asked.broker is None else asked.broker
                found.setdefault(node, []).append(place.partition)
    if not found and asked.broker is not None:
        _must_be_there(asked, topology)
    return found


def _must_be_there(asked: Asked, topology: Topology) -> None:
    """A broker that has nothing of what was asked for: nothing was looked at, and nothing found."""
    if asked.topic is None and asked.broker in topology.brokers:
        return  # it is new here
    why = f"has no replica of {asked.topic or 'anything'}"
    there = ", ".join(map(str, sorted(topology.brokers)))
    raise ConfigError(f"--broker-id {asked.broker}", why, f"the brokers are {there}")


async def _old(
    client: Client, node: int, partitions: list[TopicPartition], longest_ms: int
) -> tuple[dict[TopicPartition, Begun], int, Unread]:
    """What this broker has open for longer than one may take, as far as timestamps tell.

    And how many it has open that are younger.
    """
    from sexton.client.transaction_lists import producers_of
    from sexton.machines.repair_transactions import Age

    try:
        found, failed = await producers_of(client, node, partitions)
    except SextonError as error:
        what = f"{len(partitions)} partitions on broker {node}" if node >= 0 else "without a leader"
        return {}, 0, [(what, f"{error.subject}: {error.why}")]
    now_ms = time.time_ns() // 1_000_000
    old: dict[TopicPartition, Begun] = {}
    recent = 0
    for at, producers in found.items():
        for each in producers:
            if each.current_txn_start_offset < 0:
                continue  # it has none open
            age = Age(each.last_timestamp, now_ms, longest_ms)
            if age.is_over or age.is_in_future:
                begun = each.producer_id, each.current_txn_start_offset
                old.setdefault(at, set()).add(begun)
            else:
                recent += 1
    return old, recent, [(f"{at} on broker {node}", why) for at, why in sorted(failed.items())]


async def _known(
    client: Client, at: TopicPartition, begun: Begun, longest_ms: int
) -> list[OpenTransaction]:
    """All that replicas and coordinators know of these."""
    from sexton.guard.repair_outcomes import open_transactions, views_of

    views = await views_of(client, await client.place(at))
    found = await open_transactions(client, at, views, longest_ms)
    return [each for each in found if (each.producer.producer_id, each.start) in begun]


def _row(each: OpenTransaction) -> tuple[str | int | None, ...]:
    producer = each.producer
    return (
        *each.partition, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch,
        each.start, when(producer.last_timestamp), each.ending.ended, each.ending.because,
    )  # fmt: skip


def _finding(each: OpenTransaction) -> Finding:
    return Finding(
        each.finding_code,
        severity(each.finding_code),
        str(each.partition),
        f"A transaction of producer {each.producer.producer_id} is open from offset {each.start} "
        f"on, and has written nothing for {ago(each.producer.last_timestamp)}.",
        {"ended": each.ending.ended, "because": each.ending.because},
        advised(each),
    )
