"""Runs a cluster until somebody stops it: what `sexton up` does once it has been told how.

    take the home ─▶ start ─▶ ready ─▶ (clients, control socket, metrics) ─▶ stop ─▶ leave

The first Ctrl-C or SIGTERM closes every log in good order; the second one ends the process at once,
which costs the next start a recovery and no acknowledged record.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from sexton.base.lazy_dataclass import dataclass
from sexton.broker.chronicle import Chronicle
from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.broker.control_server import ControlServer
from sexton.broker.home import Addresses, Home
from sexton.broker.memory import keep_freed_memory
from sexton.broker.metrics import Metrics
from sexton.broker.metrics_server import MetricsServer
from sexton.broker.rebalance import prefer_leaders
from sexton.broker.steward import Steward
from sexton.node.broker import Broker

log = logging.getLogger("sexton.cluster")

PATIENCE_S = 2.0
# Leaders that move under a consumer that has just joined can leave it waiting for good: librdkafka
# does not ask for its offsets again (its issue 5586). So clients are told after they have moved,
# which takes a few hundredths of a second unless a replica has much to copy.
BALANCE_S = 10.0
INTERRUPTED = 128 + signal.SIGINT


@dataclass(frozen=True, slots=True)
class Ready:
    """What there is to say when clients may come."""

    cluster: LocalCluster
    seconds: float  # since `serve` was called
    metrics: str | None  # its address


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    host: str
    port: int


async def serve(
    home: Home,
    config: ClusterConfig,
    metrics: MetricsAddress | None,
    announce: Callable[[Ready], None],
) -> None:
    """Returns when it has been told to stop and everything is closed."""
    began = time.monotonic()
    stopping = asyncio.Event()
    _stop_on_signals(asyncio.get_running_loop(), stopping)
    cluster = LocalCluster(home.directory, config)
    chronicle = Chronicle(asyncio.get_running_loop().call_later)
    counted = Metrics(cluster, chronicle)
    cluster.on_loaded = chronicle.loaded
    cluster.on_decision = chronicle.decided

    def starts(broker: Broker) -> None:
        counted.watch(broker)
        chronicle.opened(broker.site.node, broker.site.directory.findings)

    cluster.on_broker = starts
    control = ControlServer(home.directory, Steward(cluster).handle)
    shown = MetricsServer(metrics.host, metrics.port, counted.text) if metrics else None
    balancing: asyncio.Task[None] | None = None
    try:
        with _patience("opening the logs is taking a while", home):
            cluster.start()
        if shown is not None:
            await shown.start()
        await control.start()
        await cluster.ready()
        balancing = asyncio.create_task(prefer_leaders(cluster))
        await asyncio.wait({balancing}, timeout=BALANCE_S)  # else it goes on beside the clients
        ports = tuple(cluster.listeners[number].port for number in cluster.numbers)
        home.remember(Addresses(config.host, ports, cluster.bootstrap_servers))
        announce(Ready(cluster, time.monotonic() - began, shown.address if shown else None))
        keep_freed_memory()
        await stopping.wait()
        log.info("stopping")
    finally:
        if balancing is not None:
            balancing.cancel()
        if shown is not None:
            await shown.stop()
        await control.stop()
        cluster.stop()


@contextmanager
def _patience(what: str, home: Home) -> Iterator[None]:
    """Says so if something takes longer than one waits for; the loop may be busy meanwhile."""
    timer = Timer(PATIENCE_S, log.info, [what], {"extra": {"data": str(home.directory)}})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _stop_on_signals(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    """Python's own handlers: they run even while closing a log keeps the loop busy."""
    told = False

    def tell(_number: int, _frame: object) -> None:
        nonlocal told
        if told:
            os._exit(INTERRUPTED)
        told = True
        loop.call_soon_threadsafe(stopping.set)

    signal.signal(signal.SIGINT, tell)
    signal.signal(signal.SIGTERM, tell)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else it runs under nohup
        signal.signal(signal.SIGHUP, tell)
