"""`sexton txn describe-producers`: what each replica knows of the producers of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError
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
    BrokerOption,
    PartitionOption,
    PlaceArgument,
    TopicOption,
    partition_of,
    when,
)
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.guard.repair_outcomes import ReplicaView

EXAMPLES = (
    (
        "Show every replica, side by side",
        "sexton txn describe-producers orders:3 -b localhost:9092",
    ),
    (
        "Ask one broker, as `kafka-transactions.sh` does",
        "sexton txn describe-producers -b kafka:9092 --topic orders --partition 3 --broker-id 2",
    ),
)
COLUMNS = (
    number("broker"), number("producer_id"), number("producer_epoch"),
    number("latest_coordinator_epoch"), number("last_sequence"), Column("last_timestamp"),
    number("current_transaction_start_offset"),
)  # fmt: skip


def command(
    named: PlaceArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    broker: BrokerOption = None,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Show a partition's producers as each of its replicas knows them, leader and followers.

    A transaction that is open on one replica and not on another is one whose end was missed.
    """
    at = partition_of(named, topic, partition)

    async def work(client: Client) -> list[ReplicaView]:
        from sexton.guard.repair_outcomes import views_of

        views = await views_of(client, await place_of(client, at))
        chosen = [view for view in views if broker is None or view.node == broker]
        if not chosen:
            who = ", ".join(str(view.node) for view in views)
            raise ConfigError(f"--broker-id {broker}", f"has no replica of {at}", f"{who} have one")
        return chosen

    with Output("txn describe-producers", format) as out:
        views = Reach(bootstrap, settings, command_config, data).with_client(work)
        out.rows("producers", COLUMNS, [row for view in views for row in _rows(view)])
        for view in views:
            if view.unread is not None:
                out.incomplete(f"{at} on broker {view.node}", view.unread)
        out.summarize(replicas=len(views), open=sum(len(view.open) for view in views))


def _rows(view: ReplicaView) -> list[Row]:
    return [
        (
            view.node, each.producer_id, each.producer_epoch, _or_none(each.coordinator_epoch),
            _or_none(each.last_sequence), when(each.last_timestamp),
            _or_none(each.current_txn_start_offset),
        )
        for each in view.producers
    ]  # fmt: skip


def _or_none(number: int) -> int | None:
    return None if number < 0 else number
