"""What an operator asks of running instances: a record in the retry topic, and its owner's answer.

Only the owner of a partition writes to its lock topic, so a command goes to it through the retry
topic. It is done when the owner has deleted it, in the transaction that carried it out. A message
that was freed is in nobody's hands any more: it is sent to the main topic again, as a new one.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sexton.base.errors import Missing, PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.client.listing import EARLIEST, LATEST, list_offsets
from sexton.client.reading import PartitionReader
from sexton.client.replica import Isolation
from sexton.machines.retry_records import Command, TaskName, command_record
from sexton.records.columns import Record
from sexton.retry.reading import committed_columns, read_to
from sexton.retry.topics import Names

LOOK_AGAIN_S = 0.2
REDRIVEN = "sexton.redriven.from"


class Sent:
    """A command that was written, and where."""

    def __init__(self, at: TopicPartition, offset: int, key: bytes, command: Command) -> None:
        self.at = at
        self.offset = offset
        self.key = key
        self.command = command


async def send(client: Client, names: Names, name: TaskName, command: Command) -> Sent:
    key, value = command_record(name, command, uuid.uuid4().hex)
    at = TopicPartition(names.retry, name.partition)
    offset = await append(client, at, [(key, value)])
    return Sent(at, offset, key, command)


async def until_done(client: Client, sent: Sequence[Sent], timeout_s: float) -> list[Sent]:
    """Those that nobody has carried out in this time."""
    end, left = time.monotonic() + timeout_s, list(sent)
    while left:
        left = [each for each in left if not await _is_done(client, each)]
        if time.monotonic() > end:
            break
        if left:
            await asyncio.sleep(LOOK_AGAIN_S)
    return left


async def _is_done(client: Client, sent: Sent) -> bool:
    end = (await list_offsets(client, {sent.at: LATEST}, Isolation.READ_COMMITTED))[sent.at]
    async for rows, _ in read_to(client, sent.at, min(sent.offset, end), end):
        keys, lengths = rows.key.to_list(), rows.value.length.tolist()
        if any(key == sent.key and length < 0 for key, length in zip(keys, lengths, strict=True)):
            return True
    return False


# ── messages that were freed ──


async def dead_letter(client: Client, names: Names, name: TaskName, id: int) -> Record | None:
    """The last one of this message, if it is still there."""
    at = TopicPartition(names.dead, name.partition)
    start = (await list_offsets(client, {at: EARLIEST}))[at]
    end = (await list_offsets(client, {at: LATEST}, Isolation.READ_COMMITTED))[at]
    wanted, found = ("sexton.dead.id", name.id_of(id)), None
    reader = PartitionReader(client, at)
    async for chunk in reader.read(start, end, isolation=Isolation.READ_COMMITTED):
        for record in committed_columns(chunk, at).records():
            if wanted in record.headers:
                found = record
    return found


def send_again(settings: Mapping[str, str], name: TaskName, letter: Record) -> int:
    """To the main topic, to the partition it came from; its new offset."""
    try:
        from confluent_kafka import Producer
    except ModuleNotFoundError:
        raise Missing(
            "confluent-kafka", "is not installed", 'pip install "sexton[retry]"'
        ) from None
    told: list[Any] = []
    ours = [value for header, value in letter.headers if header == "sexton.dead.id"]
    headers = [each for each in letter.headers if not each[0].startswith("sexton.dead.")]
    producer = Producer({**settings, "enable.idempotence": True})
    producer.produce(
        name.topic,
        letter.value,
        letter.key,
        name.partition,
        headers=[*headers, (REDRIVEN, ours[-1])],
        on_delivery=lambda error, message: told.append(error or message.offset()),
    )
    producer.flush(30)
    if not told or not isinstance(told[0], int):
        raise PeerError(str(name), f"the message was not sent: {told[0] if told else 'no answer'}")
    return told[0]
