"""A small asyncio client for any Kafka; it also reads one replica, which others cannot.

    async with Client("localhost:9092") as client:
        replica = client.replica(TopicPartition("orders", 0), node=3)
        async for chunk in replica.read():
            for batch in chunk.batches():
                ...

It speaks to Apache Kafka (3.9 and 4.x are tested) and to our own brokers alike. The names below are
imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.client.committed import CommittedBatches
    from sexton.client.connection import ClientConfig, Connection
    from sexton.client.reading import OffsetsGone, PartitionReader
    from sexton.client.replica import Chunk, Isolation, RawBatch, Replica, ReplicaOffsets
    from sexton.client.topology import PartitionPlace, Topology

_HOME = {
    "Chunk": "replica",
    "Client": "client",
    "ClientConfig": "connection",
    "CommittedBatches": "committed",
    "Connection": "connection",
    "Isolation": "replica",
    "OffsetsGone": "reading",
    "PartitionPlace": "topology",
    "PartitionReader": "reading",
    "RawBatch": "replica",
    "Replica": "replica",
    "ReplicaOffsets": "replica",
    "Topology": "topology",
}

__all__ = [
    "Chunk",
    "Client",
    "ClientConfig",
    "CommittedBatches",
    "Connection",
    "Isolation",
    "OffsetsGone",
    "PartitionPlace",
    "PartitionReader",
    "RawBatch",
    "Replica",
    "ReplicaOffsets",
    "Topology",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
