"""What an operator asks of running instances: a record in the retry topic, and its owner's answer.

Only the owner of a partition writes to its lock topic, so a command goes to it through the retry
topic. It is done when the owner has deleted it, in the transaction that carried it out. If its
message was handled meanwhile there was nothing to carry out, and the tombstone says so. A message
that was freed is in nobody's hands any more: see `redriving`.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence

from sexton.base.partitions import TopicPartition
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.client.listing import LATEST, list_offsets
from sexton.client.reading import PartitionReader
from sexton.client.replica import Isolation
from sexton.client.retry_reading import WAITING
from sexton.machines.retry_records import IN_VAIN, Command, TaskName, command_record
from sexton.records.columns import read_headers
from sexton.retry.reading import committed_columns
from sexton.retry.topics import Names

LOOK_AGAIN_S = 0.2


class Sent:
    """A command that was written, and where."""

    def __init__(self, at: TopicPartition, offset: int, key: bytes, command: Command) -> None:
        self.at = at
        self.offset = offset
        self.key = key
        self.command = command
        self.in_vain = False  # it is done, and has changed nothing


async def send(client: Client, names: Names, name: TaskName, command: Command) -> Sent:
    key, value = command_record(name, command, uuid.uuid4().hex)
    at = TopicPartition(names.retry, name.partition)
    offset = await append(client, at, [(key, value)])
    return Sent(at, offset, key, command)


async def until_done(client: Client, sent: Sequence[Sent], timeout_s: float) -> list[Sent]:
    """Those that nobody has carried out in this time."""
    end, left = time.monotonic() + timeout_s, list(sent)
    while left:
        left = await _not_done(client, left)
        if time.monotonic() > end:
            break
        if left:
            await asyncio.sleep(LOOK_AGAIN_S)
    return left


async def _not_done(client: Client, sent: Sequence[Sent]) -> list[Sent]:
    """Each partition is read once, however many were sent to it: they come by the thousand."""
    waiting: dict[TopicPartition, dict[bytes, Sent]] = {}
    for each in sent:
        waiting.setdefault(each.at, {})[each.key] = each
    ends = await list_offsets(client, dict.fromkeys(waiting, LATEST), Isolation.READ_COMMITTED)
    for at, by_key in waiting.items():
        start = min(each.offset for each in by_key.values())
        reader = PartitionReader(client, at, patience=WAITING)
        reading = reader.read(min(start, ends[at]), ends[at], isolation=Isolation.READ_COMMITTED)
        async for chunk in reading:
            columns = committed_columns(chunk, at)
            keys, lengths = columns.key.to_list(), columns.value.length.tolist()
            for row, (key, length) in enumerate(zip(keys, lengths, strict=True)):
                if length < 0 and (done := by_key.pop(key or b"", None)) is not None:
                    done.in_vain = IN_VAIN in dict(read_headers(columns.headers[row]))
    return [each for each in sent if each.key in waiting[each.at]]
