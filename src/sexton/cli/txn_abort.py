"""`sexton txn abort`: end a transaction that nobody else will, if it was not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.txn_reach import PartitionOption, TopicOption, partition_of
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.base.partitions import TopicPartition
    from sexton.client.client import Client
    from sexton.guard.repair_outcomes import OpenTransaction

EXAMPLES = (
    (
        "A transaction that hangs, by where it begins",
        "sexton txn abort -b localhost:9092 --topic orders --partition 3 --start-offset 1042",
    ),
    (
        "By its producer",
        "sexton txn abort -b localhost:9092 --topic orders --partition 3 --producer-id 7",
    ),
)
COLUMNS = (number("broker"), Column("knows"), Column("how"))


def command(
    topic: TopicOption = None,
    partition: PartitionOption = None,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", metavar="OFFSET", help="Where it begins.", min=0),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", metavar="ID", help="Whose it is.", min=0)
    ] = None,
    producer_epoch: Annotated[
        int | None,
        typer.Option("--producer-epoch", metavar="EPOCH", help="If not the one that is open."),
    ] = None,
    coordinator_epoch: Annotated[
        int | None,
        typer.Option("--coordinator-epoch", metavar="EPOCH", help="If not the last one known."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Even if it was committed, or nobody knows: records are lost."
        ),
    ] = False,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Abort a transaction that hangs, after asking every replica how it ended.

    What was committed is not aborted, and neither is what may have been: a replica that has missed
    a COMMIT marker is mended by `sexton repair`. With --force it is done all the same, and the
    answer says what was lost.
    """
    at = partition_of(topic, partition)
    if start_offset is None and producer_id is None:
        hint = "see `sexton txn describe-producers`"
        raise ConfigError("--start-offset", "or --producer-id is needed", hint)

    async def find(client: Client) -> OpenTransaction:
        return await _find(client, at, start_offset, producer_id)

    async def abort(client: Client) -> None:
        from sexton.client.ending import write_abort

        producer = found.producer
        await write_abort(
            client,
            at,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch if producer_epoch is None else producer_epoch,
            coordinator_epoch=producer.coordinator_epoch
            if coordinator_epoch is None
            else coordinator_epoch,
        )

    reach = Reach(bootstrap, settings, command_config, data)
    with Output("txn abort", format) as out:
        found = reach.with_client(find)
        out.rows("replicas", COLUMNS, [(each.node, each.fate, each.how) for each in found.known])
        ending = found.ending
        out.summarize(ended=ending.ended, because=ending.because, aborted=False, lost=None)
        if not ending.may_abort and not force:
            why = f"is not aborted: {ending.because}"
            if ending.loss:
                why += f"; {ending.loss}"
            hint = ending.advice
            raise Refused(KafkaError.INVALID_TXN_STATE, f"{_called(found)} {why}", hint)
        reach.with_client(abort)
        lost = None if ending.may_abort else ending.loss
        out.summarize(aborted=True, lost=lost)
        if lost:
            out.say(f"aborted by force: {lost}")


def _called(found: OpenTransaction) -> str:
    return (
        f"the transaction of producer {found.producer.producer_id} in {found.partition} "
        f"from offset {found.start} on"
    )


async def _find(
    client: Client, at: TopicPartition, start: int | None, producer_id: int | None
) -> OpenTransaction:
    from sexton.guard.repair_outcomes import open_transactions, views_of

    views = await views_of(client, await client.place(at))
    found = [
        each
        for each in await open_transactions(client, at, views)
        if (start is None or each.start == start)
        and (producer_id is None or each.producer.producer_id == producer_id)
    ]
    if len(found) != 1:
        why = "no replica has such a transaction open" if not found else "there are several"
        raise ConfigError(str(at), why, "see `sexton txn describe-producers`")
    return found[0]
