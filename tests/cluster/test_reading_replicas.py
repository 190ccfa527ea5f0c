"""Does the client read what is in one replica's files, byte by byte, whoever leads?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from sexton.base.errors import PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.committed import committed_batches
from sexton.client.connection import ClientConfig
from sexton.client.replica import Chunk, Isolation, Replica
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.replica_reading import check_reading, read_all, write_all_kinds

QUICK = ClientConfig(socket_connection_setup_timeout_ms=1_000, request_timeout_ms=5_000)
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def three() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", [[1, 2, 3]])
        yield cluster


def test_every_replica_is_read_as_it_is_on_disk(three: EmbeddedCluster) -> None:
    check_reading(three, "mixed")


def test_a_long_log_is_read_in_the_memory_of_two_chunks(three: EmbeddedCluster) -> None:
    three.create_topic("long", [[1, 2, 3]])
    producer = Producer({"bootstrap.servers": three.bootstrap_servers, "batch.size": 20_000})
    for _ in range(2_000):
        producer.produce("long", bytes(1_000), partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0
    until(lambda: three.offsets("long")[2].high_watermark == 2_000, "all of it on broker 2")

    async def read() -> None:
        async with Client(three.bootstrap_servers, QUICK) as client:
            replica = client.replica(TopicPartition("long", 0), 2)
            sizes, records = [], 0
            async for chunk in replica.read(chunk_bytes=100_000):
                sizes.append(len(chunk.data))
                records += sum(batch.header.records_count for batch in chunk.batches())
            assert records == 2_000
            assert max(sizes) <= 100_000
            assert len(sizes) > 20

    asyncio.run(read())


def test_a_replica_outside_the_isr_answers(three: EmbeddedCluster) -> None:
    three.create_topic("lagging", [[1, 2, 3]])
    write_all_kinds(three.bootstrap_servers, "lagging")
    three.isolate(3)
    try:
        three.wait_for("lagging", 0, lambda state: 3 not in state.isr)

        async def read() -> list[Chunk]:
            # Fenced brokers are in nobody's metadata: it must be known from before.
            async with Client(three.address_of(3), QUICK) as client:
                return await read_all(client.replica(TopicPartition("lagging", 0), 3))

        assert sum(len(chunk.data) for chunk in asyncio.run(read())) > 0
    finally:
        three.heal()
    three.wait_until_in_sync("lagging")


def test_reading_can_begin_and_end_anywhere(three: EmbeddedCluster) -> None:
    three.create_topic("some", [[1, 2, 3]])
    producer = Producer({"bootstrap.servers": three.bootstrap_servers})
    for number in range(10):
        producer.produce("some", str(number).encode(), partition=0)
        assert producer.flush(20) == 0  # a batch for each

    async def offsets(replica: Replica, start: int, end: int | None) -> list[int]:
        found = []
        async for chunk in replica.read(start, end=end, chunk_bytes=1):
            found += [batch.header.base_offset for batch in chunk.batches()]
        return found

    async def read() -> None:
        async with Client(three.bootstrap_servers, QUICK) as client:
            replica = client.replica(TopicPartition("some", 0), 1)
            assert await offsets(replica, 0, None) == list(range(10))
            assert await offsets(replica, 4, 7) == [4, 5, 6]
            assert await offsets(replica, 10, None) == []
            with pytest.raises(Refused, match=r"OFFSET_OUT_OF_RANGE: some-0 on broker 1"):
                await offsets(replica, 11, None)

    asyncio.run(read())


def test_whoever_stops_reading_leaves_the_connection_in_order(three: EmbeddedCluster) -> None:
    three.create_topic("half", [[1, 2, 3]])
    write_all_kinds(three.bootstrap_servers, "half")

    async def read() -> None:
        async with Client(three.bootstrap_servers, QUICK) as client:
            replica = client.replica(TopicPartition("half", 0), 1)
            reading = replica.read(chunk_bytes=1)
            async for _chunk in reading:
                break
            await reading.aclose()
            assert (await replica.offsets()).log_end > 1

    asyncio.run(read())


def test_what_a_consumer_would_not_show_is_left_out(three: EmbeddedCluster) -> None:
    three.create_topic("outcomes", [[1, 2, 3]])
    producer = Producer(
        {"bootstrap.servers": three.bootstrap_servers, "transactional.id": "outcomes"}
    )
    producer.init_transactions(20)
    for value, commit in ((b"kept", True), (b"gone", False), (b"last", True)):
        producer.begin_transaction()
        producer.produce("outcomes", value, partition=0)
        producer.flush(20)
        if commit:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)

    async def read() -> None:
        async with Client(three.bootstrap_servers, QUICK) as client:
            replica = client.replica(TopicPartition("outcomes", 0), 1)
            shown, aborted = [], set()
            async for chunk in replica.read(isolation=Isolation.READ_COMMITTED, chunk_bytes=1):
                aborted |= {entry.first_offset for entry in chunk.aborted}
                shown += [r.value for batch in committed_batches(chunk) for r in batch.records()]
            assert shown == [b"kept", b"last"]
            assert aborted == {2}

    asyncio.run(read())


def test_mistakes_are_named(three: EmbeddedCluster) -> None:
    async def ask() -> None:
        async with Client(three.bootstrap_servers, QUICK) as client:
            with pytest.raises(Refused, match="there is no topic nowhere"):
                await client.place(TopicPartition("nowhere", 0))
            with pytest.raises(Refused, match="the topic orders has no partition 7"):
                await client.place(TopicPartition("orders", 7))
            with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await client.replica(TopicPartition("nowhere", 0), 1).offsets()
            three.create_topic("elsewhere", [[1]])
            with pytest.raises(Refused, match="elsewhere-0 on broker 2"):
                await client.replica(TopicPartition("elsewhere", 0), 2).offsets()
            with pytest.raises(PeerError, match="broker 9: is not up"):
                await client.replica(ORDERS, 9).offsets()

    asyncio.run(ask())
