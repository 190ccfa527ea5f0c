from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.broker.options import with_options
from sexton.broker.rebalance import prefer_leaders
from sexton.client import admin
from sexton.client.client import Client

TOPIC = "orders"  # a client that had one of our ports before us may have others created


def leaders(data: Path, first: Callable[[LocalCluster], Awaitable[None]]) -> list[int]:
    """Starts all brokers, does something, and says who leads the topic's partitions; sorted."""

    async def run() -> list[int]:
        config = with_options(ClusterConfig(), {"replica.fetch.backoff.ms": 20})
        cluster = LocalCluster(data, config)
        cluster.start()
        try:
            await cluster.ready()
            await first(cluster)
            return sorted(p.leader for p in cluster.image.partitions_of(TOPIC).values())
        finally:
            cluster.stop()

    return asyncio.run(run())


async def create(cluster: LocalCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client:
        await admin.create_topic(client, TOPIC, 6, 3)


async def nothing(_cluster: LocalCluster) -> None:
    pass


def test_leaders_are_where_they_were_before_a_restart(tmp_path: Path) -> None:
    assert leaders(tmp_path, create) == [1, 1, 2, 2, 3, 3]
    assert leaders(tmp_path, nothing) != [1, 1, 2, 2, 3, 3]  # what it is needed for
    assert leaders(tmp_path, prefer_leaders) == [1, 1, 2, 2, 3, 3]
