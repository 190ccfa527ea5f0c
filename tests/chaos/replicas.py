"""What one replica shows to read_committed readers, whoever leads."""

from __future__ import annotations

import asyncio

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.committed import committed_batches
from sexton.client.replica import Isolation
from tests.chaos.history import Seen


def replica_records(bootstrap: str, node: int, topic: str, partition: int) -> list[Seen]:
    return asyncio.run(_records(bootstrap, node, topic, partition))


async def _records(bootstrap: str, node: int, topic: str, partition: int) -> list[Seen]:
    found: list[Seen] = []
    async with Client(bootstrap) as client:
        replica = client.replica(TopicPartition(topic, partition), node)
        async for chunk in replica.read(isolation=Isolation.READ_COMMITTED):
            for batch in committed_batches(chunk):
                found += [
                    Seen(topic, partition, record.offset, record.key or b"", record.value, "")
                    for record in batch.records()
                ]
    return found
