"""Checks of the client's replica reader that hold for every Kafka: Apache's and ours."""

from __future__ import annotations

import asyncio

from confluent_kafka import Producer

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.replica import Chunk, Isolation, Replica
from sexton.testing.cluster import Cluster
from sexton.testing.waiting import until


def write_all_kinds(bootstrap_servers: str, topic: str) -> None:
    """Plain records in every codec, a tombstone, a transaction of either end, and an open one."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "compression.type": codec, "log_level": 0}
        )
        for number in range(5):
            value = f"{codec} {number} ".encode() * 20
            producer.produce(topic, value, codec.encode(), partition=0)
        producer.produce(topic, None, codec.encode(), partition=0)
        assert producer.flush(30) == 0
    writer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": topic, "log_level": 0}
    )
    writer.init_transactions(30)
    for commit in (True, False):
        writer.begin_transaction()
        writer.produce(topic, b"in a transaction", b"k", partition=0)
        assert writer.flush(30) == 0
        if commit:
            writer.commit_transaction(30)
        else:
            writer.abort_transaction(30)
    writer.begin_transaction()
    writer.produce(topic, b"open", b"k", partition=0)
    assert writer.flush(30) == 0
    _OPEN.append(writer)  # a producer that is dropped aborts


_OPEN: list[Producer] = []
OPEN_AT = 34  # 5 codecs with 6 records, then two transactions of a record and a marker


async def read_all(
    replica: Replica, isolation: Isolation = Isolation.READ_UNCOMMITTED, chunk_bytes: int = 1 << 20
) -> list[Chunk]:
    return [chunk async for chunk in replica.read(isolation=isolation, chunk_bytes=chunk_bytes)]


def check_reading(cluster: Cluster, topic: str) -> None:
    """Writes to a new topic on brokers 1, 2 and 3, and reads each replica in several ways."""
    cluster.create_topic(topic, [[1, 2, 3]])
    write_all_kinds(cluster.bootstrap_servers, topic)
    partition = TopicPartition(topic, 0)
    end = OPEN_AT + 1

    async def high_watermarks() -> list[int]:
        async with Client(cluster.bootstrap_servers) as client:
            replicas = await client.replicas(partition)
            return [(await replica.offsets()).high_watermark for replica in replicas]

    until(lambda: asyncio.run(high_watermarks()) == [end] * 3, "followers know what is committed")

    async def check() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            place = await client.place(partition)
            assert (place.leader, place.replicas, sorted(place.isr)) == (1, (1, 2, 3), [1, 2, 3])
            for node in place.replicas:
                await check_replica(cluster, client.replica(partition, node))

    asyncio.run(check())


async def check_replica(cluster: Cluster, replica: Replica) -> None:
    directory = cluster.data_directory(replica.node) / str(replica.partition)
    stored = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    end = OPEN_AT + 1
    for chunk_bytes in (1 << 20, 200, 1):
        chunks = await read_all(replica, chunk_bytes=chunk_bytes)
        assert b"".join(chunk.data for chunk in chunks) == stored
        assert (chunks[-1].log_start, chunks[-1].high_watermark) == (0, end)
        assert chunks[-1].next_offset == end
        assert not any(chunk.aborted for chunk in chunks)
    settled = await read_all(replica, Isolation.READ_COMMITTED)
    assert [chunk.last_stable for chunk in settled] == [OPEN_AT] * len(settled)
    data = b"".join(chunk.data for chunk in settled)
    assert stored.startswith(data)
    assert len(data) < len(stored)
    assert {entry.first_offset for chunk in settled for entry in chunk.aborted} == {OPEN_AT - 2}
    offsets = await replica.offsets()
    assert (offsets.log_start, offsets.last_stable) == (0, OPEN_AT)
    assert (offsets.high_watermark, offsets.log_end) == (end, end)
    assert await replica._is_local(0)  # it says so, as a follower, too
    producers = [p for p in await replica.producers() if p.current_txn_start_offset >= 0]
    assert [p.current_txn_start_offset for p in producers] == [OPEN_AT]
