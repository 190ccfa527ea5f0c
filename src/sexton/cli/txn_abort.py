"""`sexton txn abort`: end a transaction that nobody else will, if it was not committed."""

from __future__ import annotations

from dataclasses import dataclass
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
    place_of,
)
from sexton.cli.consent import YesOption, consent
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.txn_reach import (
    PartitionOption,
    PlaceArgument,
    TopicOption,
    called,
    partition_of,
)
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.base.partitions import TopicPartition
    from sexton.client.client import Client
    from sexton.guard.repair_outcomes import OpenTransaction

EXAMPLES = (
    (
        "Abort a hanging transaction, given where it begins",
        "sexton txn abort orders:3 --start-offset 1042 -b localhost:9092",
    ),
    ("Or given its producer", "sexton txn abort orders:3 --producer-id 7 -b localhost:9092"),
    (
        "With the options of `kafka-transactions.sh`",
        "sexton txn abort -b kafka:9092 --topic orders --partition 3 --start-offset 1042",
    ),
)
COLUMNS = (number("broker"), Column("knows"), Column("how"))
StartOption = Annotated[
    int | None,
    typer.Option("--start-offset", metavar="OFFSET", help="Where the transaction begins.", min=0),
]
ProducerOption = Annotated[
    int | None,
    typer.Option("--producer-id", metavar="ID", help="The transaction's producer.", min=0),
]
EpochOption = Annotated[
    int | None,
    typer.Option(
        "--producer-epoch",
        metavar="EPOCH",
        help="Producer epoch, if not that of the open transaction.",
    ),
]
CoordinatorOption = Annotated[
    int | None,
    typer.Option(
        "--coordinator-epoch", metavar="EPOCH", help="Coordinator epoch, if not the last one known."
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Abort even if it was, or may have been, committed, after asking: records are lost.",
    ),
]


def command(
    named: PlaceArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    start_offset: StartOption = None,
    producer_id: ProducerOption = None,
    producer_epoch: EpochOption = None,
    coordinator_epoch: CoordinatorOption = None,
    force: ForceOption = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Abort a hanging transaction, after asking every replica how it ended.

    It aborts nothing that was committed or may have been: `sexton repair` fixes a replica that
    missed a COMMIT marker. With --force it aborts all the same, once you confirm, and reports what
    was lost.
    """
    at = partition_of(named, topic, partition)
    if start_offset is None and producer_id is None:
        hint = f"see `sexton txn describe-producers {at.topic}:{at.partition}`"
        raise ConfigError("--start-offset or --producer-id", "one of them is needed", hint)
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("txn abort", format, reached=reach.options) as out:
        found = reach.with_client(lambda client: _find(client, at, start_offset, producer_id))
        _tell(found, out)
        if not found.ending.may_abort:
            if not force:
                raise _refusal(found)
            risk = found.ending.loss or found.ending.because
            consent("txn abort", f"abort {called(found)} ({risk})", yes)
        marker = Marker(producer_epoch, coordinator_epoch)
        reach.with_client(lambda client: _abort(client, found, marker))
        lost = None if found.ending.may_abort else found.ending.loss
        out.summarize(aborted=True, lost=lost)
        if lost:
            out.say(f"aborted by force: {lost}")


@dataclass(frozen=True, slots=True)
class Marker:
    """What a person wants to have written in it; None: what the replica says."""

    producer_epoch: int | None
    coordinator_epoch: int | None


def _tell(found: OpenTransaction, out: Output) -> None:
    ending = found.ending
    out.rows("replicas", COLUMNS, [(each.node, each.fate, each.how) for each in found.known])
    out.summarize(ended=ending.ended, because=ending.because, aborted=False, lost=None)


def _refusal(found: OpenTransaction) -> Refused:
    ending = found.ending
    why = f"is not aborted: {ending.because}"
    if ending.loss:
        why += f"; {ending.loss}"
    return Refused(KafkaError.INVALID_TXN_STATE, f"{called(found)} {why}", ending.advice)


async def _abort(client: Client, found: OpenTransaction, marker: Marker) -> None:
    from sexton.client.ending import write_abort

    producer, at = found.producer, found.partition
    await _check_again(client, found)
    await _judge_again(client, found)
    epoch, by = marker.producer_epoch, marker.coordinator_epoch
    await write_abort(
        client,
        at,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch if epoch is None else epoch,
        coordinator_epoch=producer.coordinator_epoch if by is None else by,
    )


async def _check_again(client: Client, found: OpenTransaction) -> None:
    """It may have ended while we asked around: a marker would end the producer's next one."""
    leader = (await client.place(found.partition)).leader
    if leader < 0:
        raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody leads {found.partition}")
    begun = {
        each.producer_id: each.current_txn_start_offset
        for each in await client.replica(found.partition, leader).producers()
        if each.current_txn_start_offset >= 0
    }
    was_open = any((each.node, each.fate) == (leader, "open") for each in found.known)
    expected = found.start if was_open else None
    if begun.get(found.producer.producer_id) != expected:
        why = f"has changed on the leader, broker {leader}, while we asked"
        raise Refused(KafkaError.INVALID_TXN_STATE, f"{called(found)} {why}", "look again")


async def _judge_again(client: Client, found: OpenTransaction) -> None:
    """Its producer may have begun another one, which replicas that missed the end take for the
    same: who leads says nothing of that, its coordinator does."""
    now = await _find(client, found.partition, found.start, found.producer.producer_id)
    before, ending = found.ending, now.ending
    changed = (before.ended, before.may_abort) != (ending.ended, ending.may_abort)
    if changed and not ending.may_abort:
        raise _refusal(now)


async def _find(
    client: Client, at: TopicPartition, start: int | None, producer_id: int | None
) -> OpenTransaction:
    from sexton.guard.repair_outcomes import open_transactions, views_of

    views = await views_of(client, await place_of(client, at))
    found = [
        each
        for each in await open_transactions(client, at, views)
        if (start is None or each.start == start)
        and (producer_id is None or each.producer.producer_id == producer_id)
    ]
    if len(found) != 1:
        why = "no replica has such a transaction open" if not found else "there are several"
        hint = f"see `sexton txn describe-producers {at.topic}:{at.partition}`"
        raise ConfigError(str(at), why, hint)
    return found[0]
