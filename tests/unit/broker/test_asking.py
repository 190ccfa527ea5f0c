"""Whoever asks a node is told when there will be no answer; nobody waits for a dead one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.node.messages import ConferNow, ConferNowAnswer

End = Callable[[LocalCluster], None]


def killed(cluster: LocalCluster) -> None:
    cluster.kill_broker(1)


def stopped(cluster: LocalCluster) -> None:
    cluster.stop_broker(1)


def halted(cluster: LocalCluster) -> None:
    cluster.hosts[1]._failed(None, OSError("the disk is gone"))  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [killed, stopped, halted])
def test_nobody_waits_for_a_broker_that_has_gone(tmp_path: Path, end: End) -> None:
    async def run() -> None:
        cluster = LocalCluster(tmp_path, ClusterConfig(brokers=1))
        cluster.start()
        try:
            await cluster.ready()
            assert await cluster.ask(1, ConferNow()) == ConferNowAnswer()
            cluster.pause_broker(1)  # so that it has the question, but does not answer
            asking = asyncio.ensure_future(cluster.ask(1, ConferNow()))
            await asyncio.wait({asking}, timeout=0.05)
            assert not asking.done(), "it waits for a broker that is only paused"
            end(cluster)
            async with asyncio.timeout(10):
                assert await asking is None
                assert await cluster.ask(1, ConferNow()) is None, "it is down"
            cluster.start_broker(1)
            assert await cluster.ask(1, ConferNow()) == ConferNowAnswer()
            assert not any(cluster._waiting.values())
        finally:
            cluster.stop()

    asyncio.run(run())
