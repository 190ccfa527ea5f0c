"""What a repair goes by when it takes a replica away: what is so now, and not what one broker says.

Nothing is wrong in these topics. The notes say that broker 3 is to be rebuilt, and something speaks
against it that was not so when they were written, or that one broker has not heard of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.config_changes import TOPIC, described
from sexton.client.topology import Topology
from sexton.guard.repair import Repair
from sexton.guard.repair_notes import Notes, NotesFile
from sexton.guard.repair_sight import AnotherTopic, look
from sexton.machines.guard_notes import MIN_LAG
from sexton.machines.repair import Job
from sexton.protocol.wire import ZERO_UUID
from sexton.testing.embedded import EmbeddedCluster

COMPACTED = {"cleanup.policy": "compact"}
ALL = (1, 2, 3)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as started:
        started.create_topic("orders", [[1, 2, 3]], COMPACTED)
        yield started


def with_place(found: Topology, **changes: Any) -> Topology:
    """What a broker says of the partition, if it has heard of something else."""
    topic = found.topic("orders")
    place = replace(topic.partitions[0], **changes)
    return replace(found, topics={"orders": replace(topic, partitions={0: place})})


def rebuild(
    cluster: EmbeddedCluster, path: Path, tell: Callable[[str], None] = lambda _what: None
) -> None:
    """Goes on with a repair of broker 3's copy, which waits for nobody."""

    async def run() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            topology = await client.topology(["orders"])
            job = Job(TopicPartition("orders", 0), ALL, (3,), (1, 2), 1)
            topic_id = topology.topic("orders").topic_id.hex()
            notes = Notes(topology.cluster_id or "", "orders", topic_id, 0, (), (job,))
            with NotesFile(path) as file:
                await Repair(client, file, notes, lambda _, what: tell(what), stalled_s=0).rebuild()

    asyncio.run(run())


def test_a_broker_that_says_all_are_in_sync_does_not_leave_one_alone(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 2 is gone, and whoever is asked first has not heard of it."""

    cluster.kill(2)
    cluster.wait_for("orders", 0, lambda state: 2 not in state.isr)
    by_any = Client.topology

    async def stale(self: Client, topics: list[str]) -> Topology:
        found = await by_any(self, topics)
        return with_place(found, isr=ALL) if topics else found

    monkeypatch.setattr(Client, "topology", stale)
    with pytest.raises(PeerError, match="without broker 3 only 1 would be in sync"):
        rebuild(cluster, tmp_path / "notes.json")
    state = cluster.partition("orders")
    assert state is not None and {*state.replicas} == {*ALL} and 3 in state.isr


def test_min_insync_replicas_counts_as_it_is_now(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """It was 1 when the job was planned, and it is raised while the topic is being frozen."""

    def raise_it(what: str) -> None:
        if "is not cleaned" in what:
            cluster.alter_topic("orders", {"min.insync.replicas": 3})

    with pytest.raises(PeerError, match="only 2 would be in sync, and 3 must be"):
        rebuild(cluster, tmp_path / "notes.json", raise_it)
    state = cluster.partition("orders")
    assert state is not None and {*state.isr} == {*ALL}


def test_a_topic_that_is_made_again_meanwhile_is_not_touched(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    said: list[str] = []

    def make_again(what: str) -> None:
        said.append(what)
        if "is not cleaned" in what:
            cluster.delete_topic("orders")
            cluster.create_topic("orders", [[1, 2, 3]], COMPACTED)

    with pytest.raises(AnotherTopic, match="is not the one whose repair began"):
        rebuild(cluster, tmp_path / "notes.json", make_again)
    assert not [what for what in said if "gives up its copy" in what]
    assert own_lag(cluster) is None, "nor is it frozen"


def own_lag(cluster: EmbeddedCluster) -> str | None:
    async def ask() -> str | None:
        async with Client(cluster.bootstrap_servers) as client:
            return (await described(client, (TOPIC, "orders"), [MIN_LAG]))[MIN_LAG].own

    return asyncio.run(ask())


# ── what several views come to ──


@pytest.mark.parametrize(
    ("isr_of_1", "epoch_of_1", "isr"),
    [
        (ALL, 0, (1, 2)),  # the worst counts
        ((1, 2), 0, (1, 2)),
        (ALL, -1, (1, 2)),  # old news count for nothing
        ((1,), -1, (1, 2)),
        ((2,), 0, (2,)),
    ],
)
def test_of_different_views_the_newest_and_of_these_the_worst_counts(
    cluster: EmbeddedCluster,
    isr_of_1: tuple[int, ...],
    epoch_of_1: int,
    isr: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_one = Client.topology_by

    async def told(self: Client, node: int, topics: list[str]) -> Topology:
        found = await by_one(self, node, topics)
        seen, later = (isr_of_1, epoch_of_1) if node == 1 else ((1, 2), 0)
        epoch = found.topic("orders").partitions[0].leader_epoch
        return with_place(found, isr=seen, leader_epoch=epoch + later)

    async def ask() -> tuple[int, ...]:
        async with Client(cluster.bootstrap_servers) as client:
            return (await look(client, TopicPartition("orders", 0))).isr

    monkeypatch.setattr(Client, "topology_by", told)
    assert asyncio.run(ask()) == isr


# ── brokers that know of no topic ids yet, in an upgrade ──


def of_old_broker(found: Topology) -> Topology:
    topic = found.topic("orders")
    return replace(found, topics={"orders": replace(topic, topic_id=ZERO_UUID)})


@pytest.mark.parametrize("old", [(3,), (1, 2), ALL])
def test_a_broker_that_tells_no_topic_id_does_not_disagree(
    cluster: EmbeddedCluster, old: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_one = Client.topology_by

    async def told(self: Client, node: int, topics: list[str]) -> Topology:
        found = await by_one(self, node, topics)
        return of_old_broker(found) if node in old else found

    async def seen() -> tuple[tuple[int, ...], bool]:
        async with Client(cluster.bootstrap_servers) as client:
            topology = await client.topology(["orders"])
            topic_id = topology.topic("orders").topic_id.hex()
            notes = Notes(topology.cluster_id or "", "orders", topic_id, 0)
            async with asyncio.timeout(10):
                sight = await look(client, TopicPartition("orders", 0), topic_id)
            with NotesFile(tmp_path / "notes.json") as file:
                return sight.isr, await Repair(client, file, notes).is_gone()

    monkeypatch.setattr(Client, "topology_by", told)
    assert asyncio.run(seen()) == (ALL, False)
