"""Whoever asks a node is told when there will be no answer; nobody waits for a dead one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.node.messages import ConferNow, ConferNowAnswer
from sexton.node.outside import Answered, Ask, Event

TOKEN = -7  # of no question that a node asks itself

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


@pytest.mark.parametrize("end", [killed, stopped, halted])
def test_a_node_hears_that_whom_it_asked_has_gone(tmp_path: Path, end: End) -> None:
    """As it would of a connection that is closed: long before its question times out."""

    async def run() -> None:
        cluster = LocalCluster(tmp_path, ClusterConfig(brokers=2))
        cluster.start()
        try:
            await cluster.ready()
            heard = hear(cluster, 2)
            cluster.pause_broker(1)
            cluster.switchboard.ask(cluster.hosts[2], Ask(1, ConferNow(), TOKEN, 60_000))
            await asyncio.sleep(0.05)
            assert Answered(TOKEN, None) not in heard, "it waits for a broker that is only paused"
            end(cluster)
            await until(lambda: Answered(TOKEN, None) in heard)
        finally:
            cluster.stop()

    asyncio.run(run())


def test_nothing_is_heard_over_a_link_that_is_cut(tmp_path: Path) -> None:
    async def run() -> None:
        cluster = LocalCluster(tmp_path, ClusterConfig(brokers=2))
        cluster.start()
        try:
            await cluster.ready()
            heard = hear(cluster, 2)
            cluster.pause_broker(1)
            cluster.switchboard.ask(cluster.hosts[2], Ask(1, ConferNow(), TOKEN, 60_000))
            cluster.switchboard.cut(1, 2)
            killed(cluster)
            await asyncio.sleep(0.05)
            assert Answered(TOKEN, None) not in heard
            cluster.switchboard.mend(1, 2)
            await until(lambda: Answered(TOKEN, None) in heard)
            assert heard.count(Answered(TOKEN, None)) == 1
        finally:
            cluster.stop()

    asyncio.run(run())


def hear(cluster: LocalCluster, number: int) -> list[Event]:
    """What the node is told from now on."""
    heard: list[Event] = []
    node = cluster.hosts[number].node
    assert node is not None
    hear = node.hear

    def listen(event: Event, now_ms: int, clock_ms: int) -> None:
        heard.append(event)
        hear(event, now_ms, clock_ms)

    node.hear = listen  # type: ignore[method-assign]
    return heard


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110  nodes know nothing of events
            await asyncio.sleep(0.001)
