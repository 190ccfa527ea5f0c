"""Where a replica can be read: on its broker, or in a copy of its directory.

A place is a few words that can be sent to another process; opening it there gives a reader. Both
kinds of reader hand out chunks of whole batches as a read_committed consumer gets them: up to the
last stable offset, with the list of aborted transactions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from sexton.audit.facts import OpenTransaction
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.replica import Chunk, Isolation, Replica, ReplicaOffsets
from sexton.client.settings import client_config
from sexton.survey.files import FilesReader

NO_TRANSACTION = -1


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    bootstrap_servers: str
    settings: tuple[tuple[str, str], ...]  # Kafka's client settings
    node: int

    def __str__(self) -> str:
        return f"broker {self.node}"


@dataclass(frozen=True, slots=True)
class FilesPlace:
    directory: str  # of the partition
    node: int  # which of the copies

    def __str__(self) -> str:
        return self.directory


Place = BrokerPlace | FilesPlace


class Reader(Protocol):
    async def offsets(self) -> ReplicaOffsets: ...
    async def open_transactions(self) -> tuple[OpenTransaction, ...]: ...
    def read(
        self, start: int, end: int | None = None, *, undecided: bool = False
    ) -> AsyncIterator[Chunk]:
        """Up to the last stable offset; if `undecided`, to the high watermark without outcomes."""


@asynccontextmanager
async def open_place(
    place: Place, partition: TopicPartition, *, max_bytes_per_s: float | None = None
) -> AsyncIterator[Reader]:
    match place:
        case BrokerPlace(bootstrap_servers, settings, node):
            config = replace(client_config(dict(settings)), max_bytes_per_s=max_bytes_per_s)
            async with Client(bootstrap_servers, config) as client:
                yield BrokerReader(client.replica(partition, node))
        case FilesPlace(directory, node):
            yield FilesReader(directory, node)


@dataclass(frozen=True, slots=True)
class BrokerReader:
    replica: Replica

    async def offsets(self) -> ReplicaOffsets:
        return await self.replica.offsets()

    async def open_transactions(self) -> tuple[OpenTransaction, ...]:
        return tuple(
            OpenTransaction(
                each.producer_id,
                each.producer_epoch,
                each.current_txn_start_offset,
                each.last_timestamp,
            )
            for each in await self.replica.producers()
            if each.current_txn_start_offset != NO_TRANSACTION
        )

    def read(
        self, start: int, end: int | None = None, *, undecided: bool = False
    ) -> AsyncIterator[Chunk]:
        isolation = Isolation.READ_UNCOMMITTED if undecided else Isolation.READ_COMMITTED
        return self.replica.read(start, end=end, isolation=isolation)


def settings_of(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """In the form that a place keeps them."""
    return tuple(sorted(settings.items()))


def aborted_of(chunk: Chunk) -> Iterator[tuple[int, int]]:
    """The aborted transactions that came with a chunk, as the rules take them."""
    return ((each.first_offset, each.producer_id) for each in chunk.aborted)
