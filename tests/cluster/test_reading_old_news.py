"""A broker has not heard yet that a topic was deleted and made again: is it believed?

Such a broker names the old id, or another leader. Neither may end a read of the topic that is
there, nor may records of one topic be taken for the other's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

import pytest
from confluent_kafka import Producer

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.reading import PartitionReader, TopicReplaced
from sexton.client.retrying import Patience
from sexton.client.topology import Topology
from sexton.testing.embedded import EmbeddedCluster

PATIENCE = Patience(timeout_ms=20_000, backoff_ms=10, most_backoff_ms=20, unknown_topic_ms=300)
RECORDS = 20


@pytest.fixture(scope="module")
def two() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as cluster:
        yield cluster


def make(cluster: EmbeddedCluster, topic: str, value: bytes) -> Topology:
    """The topic anew with RECORDS of this value, and what a broker says of it."""
    cluster.create_topic(topic, [[1, 2]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.size": 200})
    for _ in range(RECORDS):
        producer.produce(topic, value.rjust(100), partition=0)
    assert producer.flush(30) == 0

    async def look() -> Topology:
        async with Client(cluster.bootstrap_servers) as client:
            return await client.topology([topic])

    return asyncio.run(look())


def make_again(cluster: EmbeddedCluster, topic: str, value: bytes) -> Topology:
    cluster.delete_topic(topic)
    return make(cluster, topic, value)


class Behind(Client):
    """Whoever is asked first has old news, so often; the leader itself `leader_too` so often."""

    def __init__(self, servers: str, old: Topology, times: int, leader_too: int = 0) -> None:
        super().__init__(servers)
        self._old, self._times, self._leader_too = old, times, leader_too

    async def topology(self, topics: Iterable[str] | None = None) -> Topology:
        self._times -= 1
        return self._old if self._times >= 0 and topics else await super().topology(topics)

    async def topology_by(self, node: int, topics: Iterable[str] | None) -> Topology:
        self._leader_too -= 1
        return self._old if self._leader_too >= 0 else await super().topology_by(node, topics)


async def values(
    client: Client, topic: str, topic_id: bytes, meanwhile: Callable[[], object] | None = None
) -> set[bytes]:
    """Of all records that a reader hands on; `meanwhile` is done after the first chunk."""
    found: set[bytes] = set()
    async with client:
        reader = PartitionReader(client, TopicPartition(topic, 0), None, topic_id, PATIENCE)
        async for chunk in reader.read(0, RECORDS, chunk_bytes=500):
            for batch in chunk.batches():
                found |= {(record.value or b"").strip() for record in batch.records()}
            if meanwhile is not None:
                await asyncio.to_thread(meanwhile)
                meanwhile = None
    return found


@pytest.mark.parametrize("leader_too", [0, 2])
def test_old_news_do_not_end_a_read_of_the_topic_that_is_there(
    two: EmbeddedCluster, leader_too: int
) -> None:
    name = f"there-{leader_too}"
    old = make(two, name, b"old")
    now = make_again(two, name, b"new")
    client = Behind(two.bootstrap_servers, old, 2, leader_too)
    assert asyncio.run(values(client, name, now.topic(name).topic_id)) == {b"new"}


def test_a_topic_that_is_not_there_any_more_is_told_whatever_old_news_say(
    two: EmbeddedCluster,
) -> None:
    """The control: everybody but the leader still names the old id, and would for ever."""
    old = make(two, "gone", b"old")
    make_again(two, "gone", b"new")
    client = Behind(two.bootstrap_servers, old, 1_000_000)
    with pytest.raises(TopicReplaced):
        asyncio.run(values(client, "gone", old.topic("gone").topic_id))


def test_records_of_a_topic_made_meanwhile_are_not_taken_for_the_old_ones(
    two: EmbeddedCluster,
) -> None:
    old = make(two, "meanwhile", b"old")
    client = Behind(two.bootstrap_servers, old, 1_000_000)
    topic_id = old.topic("meanwhile").topic_id
    with pytest.raises(TopicReplaced):
        asyncio.run(
            values(client, "meanwhile", topic_id, lambda: make_again(two, "meanwhile", b"new"))
        )
