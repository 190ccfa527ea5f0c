"""`sexton txn describe`: one transactional id, as its coordinator has it."""

from __future__ import annotations

import time
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
from sexton.cli.txn_reach import must_be_named_once, when
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.client.transactions import Transaction

EXAMPLES = (
    ("Show one transaction", "sexton txn describe orders-7 -b localhost:9092"),
    (
        "With the options of `kafka-transactions.sh`",
        "sexton txn describe -b localhost:9092 --transactional-id orders-7",
    ),
)
COLUMNS = (
    number("coordinator"), Column("transactional_id"), number("producer_id"),
    number("producer_epoch"), Column("transaction_state"), number("transaction_timeout_ms"),
    Column("started"), number("duration_ms"), Column("partitions"),
)  # fmt: skip


def command(
    named: Annotated[str | None, typer.Argument(metavar="ID", help="The transactional id.")] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", metavar="ID", help="The same as an option.")
    ] = None,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Show a transaction as its coordinator sees it: state, producer, partitions, since when."""
    must_be_named_once("ID", named, "--transactional-id", transactional_id)
    chosen = named or transactional_id or ""

    async def work(client: Client) -> Transaction:
        from sexton.client.transaction_lists import describe_transaction

        return await describe_transaction(client, chosen)

    with Output("txn describe", format) as out:
        found = Reach(bootstrap, settings, command_config, data).with_client(work)
        out.rows("transactions", COLUMNS, [_row(found)])


def _row(found: Transaction) -> Row:
    lasted = int(time.time() * 1000) - found.started_ms if found.started_ms >= 0 else None
    return (
        found.coordinator, found.transactional_id, found.producer_id, found.epoch, found.state,
        found.timeout_ms, when(found.started_ms), lasted,
        ",".join(map(str, found.partitions)) or None,
    )  # fmt: skip
