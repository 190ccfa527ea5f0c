"""Disks are looked at while something is frozen: what if brokers do not answer then?"""

from __future__ import annotations

import asyncio
import time

from sexton.client.client import Client
from sexton.client.connection import ClientConfig
from sexton.guard.disk import Costs
from sexton.testing.embedded import EmbeddedCluster

TIMEOUT_MS = 800


def test_brokers_that_hang_cost_the_guard_one_timeout_however_many_they_are() -> None:
    config = ClientConfig(
        request_timeout_ms=TIMEOUT_MS, socket_connection_setup_timeout_ms=TIMEOUT_MS
    )
    costs = Costs()

    async def look(cluster: EmbeddedCluster) -> float:
        async with Client(cluster.bootstrap_servers, config) as client:
            await client.topology([])
            for node in (1, 2, 3):
                await asyncio.to_thread(cluster.pause, node)
            began = time.monotonic()
            await costs.look(client, (1, 2, 3), {}, 0)
            return time.monotonic() - began

    with EmbeddedCluster(brokers=3) as cluster:
        took_s = asyncio.run(look(cluster))
    assert sorted(costs.unknown) == [1, 2, 3]
    assert took_s < 2.5 * TIMEOUT_MS / 1000
