"""`sexton txn list`: every transactional id that a coordinator remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.client.transaction_lists import ListedTransactions

EXAMPLES = (
    ("All of them", "sexton txn list -b localhost:9092"),
    (
        "List those that have been open for more than ten minutes",
        "sexton txn list -b localhost:9092 --state Ongoing --duration-filter 600000",
    ),
    (
        "List those with certain names",
        "sexton txn list -b localhost:9092 --transactional-id-pattern 'orders-.*'",
    ),
)
COLUMNS = (
    Column("transactional_id"), number("coordinator"), number("producer_id"),
    Column("transaction_state"),
)  # fmt: skip


def command(
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only in this state: Ongoing, CompleteCommit, Empty, ...",
        ),
    ] = None,
    producer_ids: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="ID", help="Only those of this producer."),
    ] = None,
    duration: Annotated[
        int | None,
        typer.Option(
            "--duration-filter",
            metavar="MS",
            help="Only those begun longer ago than this. As in Kafka, that includes ended ones, "
            "unless --state Ongoing is given.",
            min=0,
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--transactional-id-pattern",
            metavar="REGEX",
            help="Only ids that match as a whole; needs Kafka 4.1 brokers.",
        ),
    ] = None,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """List the transactions that the brokers coordinate, with their states."""

    async def work(client: Client) -> ListedTransactions:
        from sexton.client.transaction_lists import list_transactions

        return await list_transactions(
            client,
            states=states or (),
            producer_ids=producer_ids or (),
            duration_ms=duration,
            pattern=pattern,
        )

    with Output("txn list", format) as out:
        listed = Reach(bootstrap, settings, command_config, data).with_client(work)
        out.rows(
            "transactions",
            COLUMNS,
            [(e.transactional_id, e.coordinator, e.producer_id, e.state) for e in listed.found],
        )
        for node, why in listed.unasked:
            out.incomplete(f"broker {node}", why)
        out.summarize(transactions=len(listed.found))
