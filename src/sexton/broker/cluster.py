"""A whole cluster in one process: a controller and some brokers, each with its own directory.

    data/
      controller/         the metadata log
      broker-1/           logs of its replicas
      broker-2/

The brokers share an event loop and nothing else. Each has a port of its own for clients; between
themselves they talk over the switchboard. The controller stands beside them, so killing a broker
never stops elections.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path
from random import Random
from typing import Any

from sexton.base.errors import ConfigError
from sexton.base.findings import Finding
from sexton.base.lazy_dataclass import dataclass
from sexton.broker.compiling import have_kernels
from sexton.broker.host import Clock, Host
from sexton.broker.listener import Listener, ListenerConfig
from sexton.broker.open_files import raise_limit
from sexton.broker.switchboard import Switchboard
from sexton.log.real_disk import RealDisk
from sexton.machines.controller import ControllerConfig
from sexton.machines.metadata import Image, Record
from sexton.node import owner
from sexton.node.broker import Broker
from sexton.node.config import BrokerConfig
from sexton.node.controller import ControllerNode
from sexton.node.messages import LeaveCluster
from sexton.node.outside import CONTROLLER, Asked
from sexton.protocol.uuids import uuid_text

log = logging.getLogger("sexton.broker")

HAND_OVER_S = 5.0  # what others wait for a broker that wants to leave; then it is stopped anyway


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """How many brokers, where, and how each behaves."""

    brokers: int = 3
    host: str = "127.0.0.1"
    port: int = 0  # of the first broker; the others follow. 0: any that are free
    ports: tuple[int, ...] = ()  # of each broker, in place of `port`
    advertised_host: str | None = None  # what clients are told, where it is not `host`
    broker: BrokerConfig = field(default_factory=lambda: BrokerConfig(node_id=0))
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    listener: ListenerConfig = field(default_factory=ListenerConfig)

    def check(self) -> None:
        if self.brokers < 1:
            raise ConfigError("brokers", f"a cluster has at least one broker, not {self.brokers}")


class LocalCluster:
    """Everything here is called on the event loop that `start` was called on."""

    def __init__(self, data: Path, config: ClusterConfig | None = None) -> None:
        self.config = config or ClusterConfig()
        self.config.check()
        self.data = data
        self.clock = Clock()
        self.switchboard = Switchboard()
        self.hosts: dict[int, Host] = {}
        self.listeners: dict[int, Listener] = {}
        self._jobs = ThreadPoolExecutor(1, "sexton-cleaner", initializer=have_kernels)
        self._random = Random()
        self.cluster_id = ""
        self._waiting: dict[int, dict[_Waiter, None]] = {}  # for an answer of that node
        # Whoever watches may take these: what the controller knows when it starts, what it decides
        # from then on, and every broker that starts.
        self.on_loaded: Callable[[Image], None] = lambda _image: None
        self.on_decision: Callable[[tuple[Record, ...]], None] = lambda _records: None
        self.on_broker: Callable[[Broker], None] = lambda _broker: None

    # ── up and down ──

    def start(self) -> None:
        """Everything runs when this returns; `ready` says when every broker is in the cluster."""
        raise_limit()
        self._add_controller()
        for number in range(1, self.config.brokers + 1):
            self._add_broker(number)
        self.hosts[CONTROLLER].start()
        for number in self.numbers:
            self.start_broker(number)

    async def ready(self, timeout_s: float = 30.0) -> None:
        """Waits until the controller has every broker that runs, and they know of each other."""
        async with asyncio.timeout(timeout_s):
            while not self._all_know_all():  # noqa: ASYNC110  nodes know nothing of events
                await asyncio.sleep(0.001)

    def _all_know_all(self) -> bool:
        brokers = [b for b in map(self.broker, self.numbers) if b is not None]
        active = [[n for n, known in b.site.image.brokers.items() if known.active] for b in brokers]
        return all(len(known) >= len(brokers) for known in active)

    def stop(self) -> None:
        """In good order: every log is closed, and the next start needs no recovery."""
        for number in self.numbers:
            self.stop_broker(number)
        for listener in self.listeners.values():
            listener.release()
        if CONTROLLER in self.hosts:
            self.hosts[CONTROLLER].stop()
        self._jobs.shutdown(wait=True, cancel_futures=True)

    @property
    def numbers(self) -> list[int]:
        return sorted(self.listeners)

    @property
    def bootstrap_servers(self) -> str:
        host = self.config.advertised_host or self.config.host
        return ",".join(f"{host}:{self.listeners[number].port}" for number in self.numbers)

    # ── one broker ──

    def start_broker(self, number: int) -> None:
        """It lets clients in once the controller has told it of the cluster."""
        host = self._host(number)
        if host.node is None:
            host.start()

    async def retire_broker(self, number: int) -> None:
        """Has others lead what it leads before it is stopped, so that no client waits for it."""
        host = self._host(number)
        life = host.life
        if self._can_leave(number):
            leaving = asyncio.ensure_future(self.ask(number, LeaveCluster()))
            await asyncio.wait({leaving}, timeout=HAND_OVER_S)
            leaving.cancel()
        if host.life == life:  # else somebody killed it meanwhile
            self.stop_broker(number)

    def _can_leave(self, number: int) -> bool:
        broker, host = self.broker(number), self.hosts[number]
        if broker is None or host.paused or self.switchboard.is_cut(number, CONTROLLER):
            return False
        return self.hosts[CONTROLLER].node is not None and not broker.registration.fenced

    def stop_broker(self, number: int) -> None:
        """At once, with its logs closed in good order; the controller hears nothing of it."""
        host = self._host(number)
        self.listeners[number].close()
        host.stop()

    def kill_broker(self, number: int) -> None:
        """As by kill -9: nothing is closed, nothing is said."""
        host = self._host(number)
        host.kill()
        self.listeners[number].close()

    def pause_broker(self, number: int) -> None:
        """As by SIGSTOP: connections stay, and nobody is answered."""
        self._host(number).pause()
        self.listeners[number].hold(True)

    def resume_broker(self, number: int) -> None:
        self._host(number).resume()
        self.listeners[number].hold(False)

    def isolate(self, number: int) -> None:
        """Cuts a broker off from all other nodes; clients still reach it."""
        self._host(number)
        for other in self.hosts:
            if other != number:
                self.switchboard.cut(number, other)

    def broker(self, number: int) -> Broker | None:
        """The broker itself, if it runs."""
        node = self._host(number).node
        assert node is None or isinstance(node, Broker)
        return node

    @property
    def controller_is_up(self) -> bool:
        """Not if its disk has failed; brokers go on without it, and nothing is decided."""
        return self.hosts[CONTROLLER].node is not None

    @property
    def image(self) -> Image:
        """What was decided last, as the controller has it, or else the broker that knows most."""
        node = self.hosts[CONTROLLER].node
        if isinstance(node, ControllerNode):
            return node.machine.image
        brokers = [broker for broker in map(self.broker, self.numbers) if broker is not None]
        known = max(brokers, key=lambda broker: broker.site.metadata_end, default=None)
        return Image() if known is None else known.site.image

    def _host(self, number: int) -> Host:
        if number not in self.listeners:
            there = ", ".join(map(str, self.numbers))
            raise ConfigError(f"broker {number}", "is not in this cluster", f"there are {there}")
        return self.hosts[number]

    # ── asking ──

    async def ask(self, number: int, request: object) -> Any:
        """A request to one node, as a client would send it, but as an object.

        None if there is no answer: the node is down, fails, or goes before it has answered.
        """
        waiter = _Waiter(asyncio.get_running_loop().create_future())
        waiting = self._waiting.setdefault(number, {})
        waiting[waiter] = None
        self.switchboard.deliver(self.hosts[number], Asked(waiter, request))
        try:
            return await waiter.future
        finally:
            waiting.pop(waiter, None)

    def _gone(self, number: int) -> None:
        self.switchboard.gone(number)
        for waiter in self._waiting.get(number, {}):
            waiter.fail()

    # ── making them ──

    def _add_controller(self) -> None:
        directory = self._directory("controller")

        def make(now_ms: int, clock_ms: int) -> ControllerNode:
            disk = RealDisk(directory)
            config = self.config.controller
            if not config.cluster_id:  # counts for a new cluster only
                config = replace(config, cluster_id=uuid_text(uuid.uuid4().bytes))
            seed = self._random.getrandbits(62)
            node = ControllerNode(disk, config, now_ms, clock_ms, seed)
            _warn(CONTROLLER, [each for each in node.findings if each.code == "stray-log"])
            self.cluster_id = node.machine.image.cluster.cluster_id
            self.on_loaded(node.machine.image)
            node.written = lambda records: self.on_decision(records)
            return node

        self.hosts[CONTROLLER] = self._hosting(CONTROLLER, make)

    def _add_broker(self, number: int) -> None:
        directory = self._directory(f"broker-{number}")
        config = self.config

        def make(now_ms: int, clock_ms: int) -> Broker:
            disk = RealDisk(directory)
            why = owner.objection(owner.load(disk), owner.Owner(self.cluster_id, number))
            if why is not None:
                raise ConfigError(str(directory), why, owner.HINT)
            endpoint = (config.advertised_host or config.host, str(self.listeners[number].port))
            own = replace(config.broker, node_id=number, endpoint=endpoint, log_dir=str(directory))
            random = Random(self._random.getrandbits(64))
            broker = Broker(own, disk, random, now_ms, clock_ms)
            broker.registration.joined = self.listeners[number].open
            broker.registration.strays = lambda findings: _warn(number, findings)
            self.on_broker(broker)
            return broker

        host = self.hosts[number] = self._hosting(number, make)
        port = config.port + number - 1 if config.port else 0
        if config.ports:
            port = config.ports[number - 1]
        listener = replace(config.listener, host=config.host, port=port)
        self.listeners[number] = Listener(listener, host, self.switchboard)
        host.on_halt = lambda _error: self.listeners[number].close()

    def _hosting(self, number: int, make: Callable[[int, int], Any]) -> Host:
        board = self.switchboard
        host = Host(number, make, board.ask, board.deliver, self.clock, self._jobs)
        host.on_gone = lambda: self._gone(number)
        self.switchboard.hosts[number] = host
        return host

    def _directory(self, name: str) -> Path:
        directory = self.data / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory


def _warn(number: int, findings: list[Finding]) -> None:
    for finding in findings:
        said = {"broker": number, "code": finding.code, "where": finding.where}
        log.warning("%s", finding.message, extra=said)


@dataclass(slots=True, eq=False)
class _Waiter:
    future: asyncio.Future[Any]

    def answer(self, response: object) -> None:
        if not self.future.done():
            self.future.set_result(response)

    def fail(self) -> None:
        if not self.future.done():
            self.future.set_result(None)
