"""A leader was replaced and has not heard of it, but clients reach it: is it believed?

broker 1    led, is cut off from the others, and still answers: its log is [0, 10)
broker 2    leads now, in a later epoch: its log is [0, 20), and all of it was acknowledged
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import pytest

from sexton.base.partitions import TopicPartition
from sexton.client import reading
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.client.listing import LATEST, list_offsets
from sexton.client.reading import OffsetsGone, PartitionReader
from sexton.client.retrying import Patience
from sexton.client.topology import Topology
from sexton.testing.embedded import EmbeddedCluster

AT = TopicPartition("t", 0)
PATIENCE = Patience(timeout_ms=20_000, backoff_ms=10, most_backoff_ms=20)
KNOWN, WRITTEN = 10, 20  # to the replaced leader, and by now


async def write(servers: str, count: int) -> None:
    async with Client(servers) as client:
        for number in range(count):
            await append(client, AT, [(b"k%d" % number, b"v")])


@pytest.fixture
def cut() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic(AT.topic, [[1, 2, 3]])
        asyncio.run(write(cluster.bootstrap_servers, KNOWN))
        cluster.isolate(1)
        cluster.wait_for(AT.topic, 0, lambda state: state.leader != 1)
        asyncio.run(write(others(cluster), WRITTEN - KNOWN))
        yield cluster


def others(cluster: EmbeddedCluster) -> str:
    return ",".join(cluster.address_of(node) for node in (2, 3))


class Misled(Client):
    """After its first question it hears only broker 1, so often; the last time more is written."""

    def __init__(self, cluster: EmbeddedCluster, times: int, more: int) -> None:
        super().__init__(cluster.bootstrap_servers)
        self._cluster, self._left, self._more = cluster, times, more
        self._is_first = True

    async def topology(self, topics: Iterable[str] | None = None) -> Topology:
        names = list(topics or ())
        if self._is_first or not names:
            self._is_first = not names
            return await super().topology(names)
        self._left -= 1
        if self._left == 0:
            await write(others(self._cluster), self._more)
        if self._left < 0:
            return await super().topology(names)
        async with Client(self._cluster.address_of(1)) as cut_off:
            return await cut_off.topology(names)

    async def topologies(
        self, topics: Sequence[str], nodes: Iterable[int], within_ms: int
    ) -> list[Topology]:
        del topics, nodes, within_ms
        return []  # nor does anybody else answer in time


def test_a_leader_of_an_earlier_epoch_is_not_taken_for_one_that_has_lost_records(
    cut: EmbeddedCluster,
) -> None:
    """The reader is at the end and waits for more; meanwhile it meets the replaced leader."""

    async def run() -> int:
        async with Misled(cut, times=3, more=2) as client:
            await client.topology([])  # broker 1 says where they all are
            client.look_elsewhere()
            reader = PartitionReader(client, AT, patience=PATIENCE)
            async for chunk in reader.read(0, WRITTEN + 2):
                reached = chunk.next_offset
            return reached

    assert asyncio.run(run()) == WRITTEN + 2


async def read(servers: str, start: int, end: int) -> int:
    """How far it comes."""
    async with Client(servers) as client:
        reader = PartitionReader(client, AT, patience=PATIENCE)
        async for chunk in reader.read(start, end):
            reached = chunk.next_offset
    return reached


@pytest.mark.parametrize("named", [1, 3])
def test_what_a_replaced_leader_lacks_is_not_called_gone(cut: EmbeddedCluster, named: int) -> None:
    """It is asked first, or is even the only one that the client was given."""
    servers = ",".join(cut.bootstrap_servers.split(",")[:named])
    assert asyncio.run(read(servers, WRITTEN - 5, WRITTEN)) == WRITTEN


def test_without_asking_the_others_it_would_be(
    cut: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr(reading, "newest_topology", Client.topology)
    with pytest.raises(OffsetsGone):
        asyncio.run(read(cut.bootstrap_servers, WRITTEN - 5, WRITTEN))


def test_what_nobody_has_is_called_gone_by_the_leader_that_there_is(cut: EmbeddedCluster) -> None:
    with pytest.raises(OffsetsGone) as told:
        asyncio.run(read(cut.bootstrap_servers, WRITTEN + 5, WRITTEN + 10))
    assert told.value.log_end == WRITTEN


def test_a_range_that_cannot_be_read_is_compared_with_the_end_that_there_is(
    cut: EmbeddedCluster,
) -> None:
    async def run() -> int:
        async with Client(cut.bootstrap_servers) as client:
            return await PartitionReader(client, AT, patience=PATIENCE).log_end()

    assert asyncio.run(run()) == WRITTEN


@pytest.mark.parametrize(("newest", "end"), [(True, WRITTEN), (False, KNOWN)])
def test_the_end_is_where_the_leader_that_there_is_has_it(
    cut: EmbeddedCluster, newest: bool, end: int
) -> None:
    """To whoever wants to be sure; the others, who want to be quick, are the control."""

    async def run() -> int:
        async with Client(cut.bootstrap_servers) as client:
            return (await list_offsets(client, {AT: LATEST}, newest=newest))[AT]

    assert asyncio.run(run()) == end
