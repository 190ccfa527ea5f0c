"""Disks are looked at while something is frozen: what is told of them, and what if nothing is?"""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

from sexton.client.client import Client
from sexton.client.connection import ClientConfig
from sexton.client.disk_room import LogDirectory, log_directories
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


def test_our_brokers_say_how_much_room_is_left(tmp_path: Path) -> None:
    async def look(cluster: EmbeddedCluster) -> list[LogDirectory]:
        async with Client(cluster.bootstrap_servers) as client:
            await client.topology([])
            return await log_directories(client, 1)

    with EmbeddedCluster(brokers=1, data=tmp_path / "data") as cluster:
        (found,) = asyncio.run(look(cluster))
    assert found.usable_bytes is not None
    assert 0 < found.usable_bytes < shutil.disk_usage(tmp_path).total
