"""A replica's log in a file, before it is thrown away.

What is read is what is written: whole batches as the broker has them, which makes a segment that
`sexton log dump` and `sexton audit --path` understand. What is above the high watermark is not sent
to anybody, and no loss. A copy is whole or an error: nobody could tell later where it was cut off.

An earlier copy is never written over. It may hold what no replica does any more, and the replica
that is copied now may have been rebuilt since:

    wrong/broker-3/orders-0/00000000000000000000.log
    wrong/broker-3-2/orders-0/00000000000000000000.log     the second time
"""

from __future__ import annotations

import os
from contextlib import aclosing
from itertools import count
from pathlib import Path

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.reading import PartitionReader

UNFINISHED = ".part"


async def keep_copy(client: Client, partition: TopicPartition, node: int, under: Path) -> Path:
    """Writes `broker-3/orders-0/00000000000000000000.log`; where that is."""
    stands = await client.replica(partition, node).offsets()
    start, end = stands.log_start, stands.high_watermark
    directory = _unused(partition, node, under)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{start:020d}.log"
    unfinished = path.with_name(path.name + UNFINISHED)
    chunks = PartitionReader(client, partition, node).read(start, end)
    with unfinished.open("wb") as file:
        async with aclosing(chunks):
            async for chunk in chunks:
                file.write(chunk.data)
        file.flush()
        os.fsync(file.fileno())
    return unfinished.rename(path)


def _unused(partition: TopicPartition, node: int, under: Path) -> Path:
    """A directory in which there is no copy yet."""
    names = (f"broker-{node}" + (f"-{number}" if number > 1 else "") for number in count(1))
    places = (under / name / str(partition) for name in names)
    return next(place for place in places if not any(place.glob("*.log")))
