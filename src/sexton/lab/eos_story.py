"""A story about exactly once: steps that are told, and a validator's word on the sink at the end.

The words are those of the report that began it all: a sum that was there before, or that is less
than the last one of its key, is an inconsistent duplicate, although every transaction was committed
and the reader asks for committed records only.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.committed import committed_batches
from sexton.client.reading import PartitionReader
from sexton.client.replica import Isolation
from sexton.stores.changelog import bounds
from sexton.testing.cluster import Cluster

Tell = Callable[[str], None]
Sums = list[tuple[str, int]]

INPUT, SINK, GROUP, KEY = "numbers", "sums", "counter", "key_17"
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the validator says of the sink; nothing, if all is well."""

    words: tuple[str, ...]
    sums: Sums


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    shows: str
    play: Callable[[Cluster, bool, Tell], Verdict]
    about_s: int
    on_kafka: bool = False  # can it be played on Apache Kafka?
    as_it_was: Mapping[str, object] = field(default_factory=dict)  # broker options, not if `fixed`
    options: Mapping[str, object] = field(default_factory=dict)  # broker options in both forms
    brokers: int = 1
    needs_java: bool = False
    packages: tuple[str, ...] = ()  # that it needs, and not every installation has


def validated(sums: Iterable[tuple[str, int]], partition: int) -> tuple[str, ...]:
    """The report's validator: a sum that was there before, or less than the last one of its key."""
    last: dict[str, int] = defaultdict(int)
    words = []
    for key, value in sums:
        if value <= last[key]:
            words.append(
                "[BUG REPRODUCED: INCONSISTENT DUPLICATE (Read Committed)]"
                f" Partition: {partition}, Key: {key}, LastValue: {last[key]}, NewValue: {value}"
            )
        last[key] = value
    return tuple(words)


async def committed_sums(
    client: Client, at: TopicPartition, number: Callable[[bytes], int]
) -> Sums:
    """The sink as a read_committed consumer sees it once nothing is open any more."""
    end = (await bounds(client, at)).high_watermark
    found: Sums = []
    async for chunk in PartitionReader(client, at).read(0, end, isolation=Isolation.READ_COMMITTED):
        for batch in committed_batches(chunk):
            found += [
                ((r.key or b"").decode(), number(bytes(r.value or b""))) for r in batch.records()
            ]
    return found


@contextmanager
def client_of(cluster: Cluster) -> Iterator[tuple[asyncio.AbstractEventLoop, Client]]:
    """A client, and the loop on which a story asks it one thing after the other."""
    loop = asyncio.new_event_loop()
    client = Client(cluster.bootstrap_servers)
    try:
        yield loop, client
    finally:
        loop.run_until_complete(client.close())
        loop.close()
