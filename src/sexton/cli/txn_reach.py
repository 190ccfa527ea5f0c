"""What the `txn` commands share: the partition that is meant, and times for people.

A partition is named as everywhere, `orders:3`, or by the options of Kafka's own tool (KIP-664).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.cli.naming import place_named
from sexton.report.quantities import iso

if TYPE_CHECKING:
    from sexton.guard.repair_outcomes import OpenTransaction

PlaceArgument = Annotated[
    str | None, typer.Argument(metavar="TOPIC:PARTITION", help="The partition.")
]
TopicOption = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The topic.")]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", metavar="NUMBER", help="The partition.", min=0)
]
BrokerOption = Annotated[
    int | None, typer.Option("--broker-id", metavar="BROKER", help="Ask this broker only.", min=0)
]


def partition_of(named: str | None, topic: str | None, partition: int | None) -> TopicPartition:
    """Named in one word, or by two options."""
    must_be_named_once("TOPIC:PARTITION", named, "--topic and --partition", topic, partition)
    if named is not None:
        return place_named(named)
    if topic is None or partition is None:
        missing = "--topic" if topic is None else "--partition"
        raise ConfigError(
            missing, "is needed too", "as in orders:0, or --topic orders --partition 0"
        )
    return TopicPartition(topic, partition)


def must_be_named_once(argument: str, named: str | None, options: str, *given: object) -> None:
    """What stands by itself and what the options say would be two answers to one question."""
    by_options = any(each is not None for each in given)
    if named is None and not by_options:
        raise ConfigError(argument, "is needed", f"or {options}, as in Kafka's own tool")
    if named is not None and by_options:
        raise ConfigError(named, f"does not go with {options}", "name it once")


def advised(found: OpenTransaction) -> str:
    """What to do about it, with the command that does it."""
    at, said = found.partition, sentence(found.ending.advice)
    if not found.ending.may_abort:
        return said
    return f"{said} `sexton txn abort {at.topic}:{at.partition} --start-offset {found.start}`"


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
