"""What the `txn` commands share: the partition that is meant, and times for people."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.report.quantities import iso

if TYPE_CHECKING:
    from sexton.guard.repair_outcomes import OpenTransaction

TopicOption = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The topic.")]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", metavar="NUMBER", help="The partition.", min=0)
]
BrokerOption = Annotated[
    int | None, typer.Option("--broker-id", metavar="BROKER", help="Ask this broker only.", min=0)
]


def partition_of(topic: str | None, partition: int | None) -> TopicPartition:
    if topic is None or partition is None:
        hint = "as in --topic orders --partition 0"
        raise ConfigError("--topic and --partition", "are both needed", hint)
    return TopicPartition(topic, partition)


def advised(found: OpenTransaction) -> str:
    """What to do about it, with the command that does it."""
    at, said = found.partition, sentence(found.ending.advice)
    if not found.ending.may_abort:
        return said
    return (
        f"{said} `sexton txn abort --topic {at.topic} --partition {at.partition} "
        f"--start-offset {found.start}`"
    )


def called(found: OpenTransaction) -> str:
    producer, at = found.producer.producer_id, found.partition
    return f"the transaction of producer {producer} in {at} from offset {found.start} on"


def sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}."


when = iso  # a time for people; None if there is none


def ago(time_ms: int) -> str:
    """`3 h 20 min`; how long ago that was."""
    minutes, seconds = divmod(max(0, int(time.time() - time_ms / 1000)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    parts = [f"{count} {unit}" for count, unit in units if count]
    return " ".join(parts[:2]) or "0 s"
