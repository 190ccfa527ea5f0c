"""`sexton txn explain`: why do read_committed consumers of this partition wait?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sexton.audit.remedies import severity
from sexton.base.findings import Finding
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
    place_of,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.txn_reach import (
    PartitionOption,
    PlaceArgument,
    TopicOption,
    advised,
    ago,
    called,
    partition_of,
    sentence,
    when,
)
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.base.partitions import TopicPartition
    from sexton.client.client import Client
    from sexton.client.topology import PartitionPlace
    from sexton.guard.repair_outcomes import OpenTransaction, ReplicaView

EXAMPLES = (
    ("Explain why consumers stand still", "sexton txn explain orders:3 -b localhost:9092"),
    ("For a program", "sexton txn explain orders:3 -b localhost:9092 --format json"),
)
EXIT_CODES = (
    "0 nobody waits longer than a transaction takes, 1 one will not end by itself, 2 wrong usage, "
    "3 a broker could not be asked."
)
REPLICAS = (
    number("broker"), Column("role"), Column("in_sync"), number("last_stable_offset"),
    number("high_watermark"), number("waits_at"),
)  # fmt: skip
TRANSACTIONS = (
    number("start_offset"), number("producer_id"), number("producer_epoch", spare=True),
    Column("last_timestamp", spare=True), Column("transactional_id"),
    Column("coordinator_state"), Column("ended"), Column("because", spare=True),
    Column("advice", spare=True),
)  # fmt: skip
KNOWN = (number("start_offset"), number("producer_id"), number("broker"), Column("knows"),
         Column("how"))  # fmt: skip


def command(
    named: PlaceArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Explain why read_committed consumers of a partition wait, since when, and what to do.

    Shows which transaction each replica waits for, what its coordinator says, what every replica
    knows of it, and whether it may be aborted.
    """
    at = partition_of(named, topic, partition)
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("txn explain", format, reached=reach.options) as out:
        _show(reach.with_client(lambda client: _look(client, at)), out)


@dataclass(frozen=True, slots=True)
class Looked:
    """One partition: its replicas, and what they have open."""

    place: PartitionPlace
    views: list[ReplicaView]
    found: list[OpenTransaction]


async def _look(client: Client, at: TopicPartition) -> Looked:
    from sexton.guard.repair_outcomes import open_transactions, views_of

    place = await place_of(client, at)
    views = await views_of(client, place)
    return Looked(place, views, await open_transactions(client, at, views))


def _show(looked: Looked, out: Output) -> None:
    from sexton.machines.repair_transactions import WILL_END

    place, found = looked.place, looked.found
    out.rows("replicas", REPLICAS, [_replica(view, place) for view in looked.views])
    for view in looked.views:
        if view.unread is not None:
            out.incomplete(f"{place.partition} on broker {view.node}", view.unread)
    if found:
        out.rows("transactions", TRANSACTIONS, map(_transaction, found))
        rows: list[Row] = [
            (each.start, each.producer.producer_id, known.node, known.fate, known.how)
            for each in found
            for known in each.known
        ]
        out.rows("answers", KNOWN, rows)
    leader = next((view for view in looked.views if view.node == place.leader), None)
    out.say(_standing(leader, found))
    for each in found:
        if not each.ending.complete:
            out.incomplete(called(each), f"not everybody could be asked: {each.ending.because}")
        elif each.ending.ended not in WILL_END:
            out.finding(_finding(each))
    out.summarize(open=len(found))


def _replica(view: ReplicaView, place: PartitionPlace) -> Row:
    offsets = view.offsets
    first = view.open[0].current_txn_start_offset if view.open else None
    return (
        view.node, "leader" if view.node == place.leader else "follower", view.node in place.isr,
        offsets.last_stable if offsets else None, offsets.high_watermark if offsets else None,
        first,
    )  # fmt: skip


def _transaction(each: OpenTransaction) -> Row:
    producer, coordinator = each.producer, each.coordinator
    return (
        each.start, producer.producer_id, producer.producer_epoch, when(producer.last_timestamp),
        coordinator.transactional_id if coordinator else None,
        coordinator.state if coordinator else None,
        each.ending.ended, each.ending.because, each.ending.advice,
    )  # fmt: skip


def _standing(leader: ReplicaView | None, found: list[OpenTransaction]) -> str:
    """One sentence or two about what a consumer sees."""
    if leader is None:
        return "\nNobody leads the partition."
    if leader.offsets is None:
        return "\nWhat consumers see is not known: the leader does not answer, or not this user."
    stable, end = leader.offsets.last_stable, leader.offsets.high_watermark
    if stable >= end:
        waits = "" if not found else " A replica that does not lead waits, and would if it led."
        return f"\nConsumers can read everything, up to offset {end}.{waits}"
    first = next((each for each in found if each.start == stable), None)
    if first is None:
        return (
            f"\nConsumers wait at offset {stable} of {end}, and the leader does not say for what."
        )
    producer = first.producer
    return (
        f"\nConsumers wait at offset {stable} of {end} for the end of a transaction of producer "
        f"{producer.producer_id}, which last wrote {ago(producer.last_timestamp)} ago. "
        f"{sentence(first.ending.because)} {sentence(first.ending.advice)}"
    )


def _finding(each: OpenTransaction) -> Finding:
    waiting = ", ".join(str(known.node) for known in each.known if known.fate == "open")
    return Finding(
        each.finding_code,
        severity(each.finding_code),
        f"{each.partition} on {waiting}",
        f"A transaction of producer {each.producer.producer_id} from offset {each.start} on is "
        "open there, and will not end by itself.",
        {"ended": each.ending.ended, "because": each.ending.because},
        advised(each),
    )
