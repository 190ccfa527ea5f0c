"""A replica's log in a file, before it is thrown away.

What is read is what is written: whole batches as the broker has them, which makes a segment that
`sexton log dump` and `sexton audit --path` understand. What is above the high watermark is not sent
to anybody, and no loss. A copy is whole or an error: nobody could tell later where it was cut off.
"""

from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.reading import PartitionReader


async def keep_copy(client: Client, partition: TopicPartition, node: int, under: Path) -> Path:
    """Writes `broker-3/orders-0/00000000000000000000.log`; where that is."""
    stands = await client.replica(partition, node).offsets()
    start, end = stands.log_start, stands.high_watermark
    directory = under / f"broker-{node}" / str(partition)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{start:020d}.log"
    chunks = PartitionReader(client, partition, node).read(start, end)
    with path.open("wb") as file:
        async with aclosing(chunks):
            async for chunk in chunks:
                file.write(chunk.data)
        file.flush()
        os.fsync(file.fileno())
    return path
