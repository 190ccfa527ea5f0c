"""A compacted topic on a real Apache Kafka of three brokers, filled in half a minute.

Our encoder makes the batches, as the Java producer would make them: of 16 KiB each. They go out one
in a request, as Kafka wants it, to all leaders side by side, with `acks=1`; the topic is ready when
every replica has said that it holds everything.

Nothing is cleaned while it is measured: all records are in the active segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.audit_records import RECORDS_A_KEY, Records
from benchmarks.contestants import KAFKA, Contestant, contestant
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.records.decoder import scan
from sexton.records.tables import Array
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.waiting import until

BROKERS = 3
PARTITIONS = 4
_BY_NAME = range(3, 13)  # from 13 on topics go by id
_UNNUMBERED = bytes(8)  # a base offset of 0: the leader numbers what it takes
_AT_ONCE = 32  # requests under way to one leader
_BROKER_OPTIONS = {"replica.fetch.min.bytes": 1 << 20}  # followers need not hurry
_OPTIONS = {
    "cleanup.policy": "compact",
    "segment.bytes": (1 << 31) - 1,
    "segment.ms": 2**40,
    "min.compaction.lag.ms": 2**40,
}


@dataclass(frozen=True, slots=True)
class Topic:
    """Filled, and the same on every broker."""

    name: str
    brokers: Contestant
    parts: Sequence[Records]  # what each partition holds
    first_replica: Path  # the directory of partition 0 on one broker

    @property
    def records(self) -> int:
        return sum(part.count for part in self.parts)

    @property
    def keys(self) -> int:
        return sum(part.keys for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes of one replica of all partitions."""
        logs = self.first_replica.parent.glob(f"{self.name}-*/*.log")
        return sum(log.stat().st_size for log in logs)


@contextmanager
def three_brokers(*, keep: bool) -> Iterator[ApacheKafka]:
    config = KafkaConfig(nodes=BROKERS, heap="512m", options=_BROKER_OPTIONS, keep=keep)
    with ApacheKafka(config) as kafka:
        yield kafka


def filled_topic(kafka: ApacheKafka, name: str, records: int) -> Topic:
    """Made on `kafka`, with a replica on every broker, and leaderships go round."""
    nodes = kafka.node_ids
    turns = [number % len(nodes) for number in range(PARTITIONS)]
    kafka.create_topic(name, [nodes[turn:] + nodes[:turn] for turn in turns], _OPTIONS)
    parts = parts_of(records)
    asyncio.run(fill(kafka.bootstrap, name, parts))
    until(lambda: asyncio.run(is_everywhere(kafka.bootstrap, name, parts)), "all replicas", 300)
    first = kafka.data_directory(1) / f"{name}-0"
    return Topic(name, contestant(KAFKA, kafka), parts, first)


def parts_of(records: int) -> list[Records]:
    """What goes to each partition; every key is in one of them only."""
    count = records // PARTITIONS
    keys = count // RECORDS_A_KEY
    return [Records(count, keys, number, PARTITIONS) for number in range(PARTITIONS)]


async def fill(bootstrap: str, topic: str, parts: Sequence[Records]) -> None:
    async with asyncio.TaskGroup() as group:
        for number, records in enumerate(parts):
            group.create_task(_fill_partition(bootstrap, TopicPartition(topic, number), records))


async def _fill_partition(bootstrap: str, partition: TopicPartition, records: Records) -> None:
    async with Client(bootstrap) as client:
        leader = await client.broker((await client.place(partition)).leader)
        for chunk in records.chunks():
            waiting = list(_batches(chunk))
            for first in range(0, len(waiting), _AT_ONCE):  # they are sent in this order
                some = waiting[first : first + _AT_ONCE]
                await asyncio.gather(*(_send(leader, partition, batch) for batch in some))


def _batches(chunk: Array) -> Iterator[bytes]:
    found = scan(chunk)
    for place, size in zip(found.position.tolist(), found.size.tolist(), strict=True):
        yield _UNNUMBERED + chunk[place + len(_UNNUMBERED) : place + size].tobytes()


async def _send(leader: Connection, partition: TopicPartition, batch: bytes) -> None:
    data = PartitionProduceData(partition.partition, batch)
    topic = TopicProduceData(partition.topic, partition_data=[data])
    answer = await leader.ask(ProduceRequest(None, 1, 30_000, [topic]), _BY_NAME)
    result = answer.responses[0].partition_responses[0]
    if result.error_code:
        why = result.error_message or "a batch"
        raise refused(result.error_code, f"{partition}: {why}")


async def is_everywhere(bootstrap: str, topic: str, parts: Sequence[Records]) -> bool:
    async with Client(bootstrap) as client:
        for number, records in enumerate(parts):
            for replica in await client.replicas(TopicPartition(topic, number)):
                if (await replica.offsets()).high_watermark < records.count:
                    return False
    return True
