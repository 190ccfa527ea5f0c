"""Nodes, clients, a network and a clock: one loop takes the next thing that happens and lets it.

    heap of (time, number, action)

Nodes are the real ones. A process can be killed (what it wrote is still in the page cache), lose
power (what was not synced may be gone), pause, and be started again on what its disk holds. Its
clock may run ahead or behind. Nothing here knows what is right; `observer` is told of each step.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.controller import ControllerConfig
from sexton.node.broker import Broker
from sexton.node.config import BrokerConfig
from sexton.node.controller import ControllerNode
from sexton.node.outside import (
    CONTROLLER,
    LATEST,
    Answer,
    Answered,
    Ask,
    Asked,
    Effect,
    Event,
    Ran,
    Run,
    WakeAt,
    Woken,
)
from sexton.sim.fused_disk import FusedDisk, PowerCut
from sexton.sim.network import CLIENTS, Address, Network

Action = Callable[[], None]
Then = Callable[[object | None], None]
DISK_FAILURES = (OSError, Refused)  # the latter with KAFKA_STORAGE_ERROR only
REFUSED_MS = 2  # how long it takes to learn that nobody is there


class Observer(Protocol):
    def stepped(self, process: Process) -> None:
        """A node has handled an event; its effects are not carried out yet."""

    def started(self, process: Process) -> None: ...

    def crashed(self, process: Process, lost_power: bool) -> None: ...


@dataclass(slots=True, eq=False)
class Process:
    """One node and what it runs on."""

    address: Address
    disk: FusedDisk
    node: Broker | ControllerNode | None = None  # None: not running
    life: int = 0  # counts starts: what was sent to an earlier life is not for this one
    paused: bool = False
    backlog: list[Event] = field(default_factory=list)  # came while it was paused
    ahead_ms: int = 0  # how far its clock is ahead
    waiting: dict[int, None] = field(default_factory=dict)  # tokens of questions under way

    @property
    def up(self) -> bool:
        return self.node is not None

    @property
    def broker(self) -> Broker | None:
        return self.node if isinstance(self.node, Broker) else None


class World:
    def __init__(
        self,
        brokers: list[BrokerConfig],
        controller: ControllerConfig,
        seed: int,
        start_ms: int,
    ) -> None:
        self.now_ms = start_ms
        self.events = 0  # that nodes have handled
        self.observer: Observer | None = None
        self.story: Callable[[str], None] | None = None
        self.longest_job_ms = 60_000
        self.restart_ms = 30_000
        self._seed = seed
        self._heap: list[tuple[int, int, Action]] = []
        self._number = 0
        self.network = Network(Random(f"{seed} network"))
        self.crashes = Random(f"{seed} crashes")
        self._configs = {config.node_id: config for config in brokers}
        self._controller_config = controller
        self.processes: dict[Address, Process] = {
            address: Process(address, FusedDisk()) for address in [CONTROLLER, *self._configs]
        }
        self._brokers = [self.processes[address] for address in self._configs]

    @property
    def brokers(self) -> list[Process]:
        return self._brokers

    # ── time ──

    def at(self, time_ms: int, action: Action) -> None:
        self._number += 1
        heapq.heappush(self._heap, (time_ms, self._number, action))

    def after(self, delay_ms: int, action: Action) -> None:
        self.at(self.now_ms + delay_ms, action)

    def run_until(self, end_ms: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(heap)
            action()
        self.now_ms = end_ms

    def tell(self, line: str) -> None:
        if self.story is not None:
            self.story(line)

    # ── processes ──

    def start(self, address: Address) -> None:
        process = self.processes[address]
        if process.up:
            return
        process.life += 1
        process.backlog, process.paused, process.waiting = [], False, {}
        process.disk.fuse = None
        try:
            process.node = node = self._node(process)
        except DISK_FAILURES as error:
            self._halt(process, error)
            return
        if self.observer is not None:
            self.observer.started(process)
        self._carry_out(process, node.start())

    def _node(self, process: Process) -> Broker | ControllerNode:
        disk, now_ms = process.disk, self.now_ms + process.ahead_ms
        if process.address == CONTROLLER:
            return ControllerNode(disk, self._controller_config, now_ms, self.now_ms)
        random = Random(f"{self._seed} node {process.address} {process.life}")
        return Broker(self._configs[process.address], disk, random, now_ms, self.now_ms)

    def _halt(self, process: Process, error: OSError | Refused) -> None:
        """A disk that does not keep what must be kept: the broker stops, as Kafka's does."""
        if isinstance(error, Refused) and error.error != KafkaError.KAFKA_STORAGE_ERROR:
            raise error
        self.tell(f"{name_of(process.address)} halts: {error}")
        self.kill(process.address)
        self.after(self.restart_ms, lambda: self.start(process.address))

    def stop(self, address: Address) -> None:
        """In good order: logs are closed, nothing needs recovery."""
        process = self.processes[address]
        broker = process.broker
        if broker is not None:
            try:
                broker.close(self.now_ms + process.ahead_ms)
            except DISK_FAILURES as error:
                self._halt(process, error)
                return
            process.node = None
            self._hang_up(process)

    def kill(self, address: Address) -> None:
        """The process is gone; what it wrote is in the page cache and stays."""
        process = self.processes[address]
        if process.up:
            process.node = None
            self._hang_up(process)
            if self.observer is not None:
                self.observer.crashed(process, lost_power=False)

    def cut_power(self, address: Address) -> None:
        """The machine is gone, and with it what was not synced, or some of it."""
        process = self.processes[address]
        if process.up:
            process.node = None
            process.disk = process.disk.crashed(self.crashes)
            self._hang_up(process)
            if self.observer is not None:
                self.observer.crashed(process, lost_power=True)

    def _hang_up(self, process: Process) -> None:
        process.life += 1
        process.paused, process.backlog, process.waiting = False, [], {}

    def pause(self, address: Address) -> None:
        if self.processes[address].up:
            self.processes[address].paused = True

    def resume(self, address: Address) -> None:
        process = self.processes[address]
        if process.paused:
            process.paused = False
            backlog, process.backlog = process.backlog, []
            for event in backlog:
                self.deliver(process, process.life, event)

    # ── events and effects ──

    def deliver(self, process: Process, life: int, event: Event) -> None:
        if process.node is None or process.life != life:
            return
        if process.paused:
            process.backlog.append(event)
            return
        self.events += 1
        try:
            effects = process.node.handle(event, self.now_ms + process.ahead_ms, self.now_ms)
        except PowerCut:
            self._power_cut(process)
            return
        except DISK_FAILURES as error:
            self._halt(process, error)
            return
        if self.observer is not None:
            self.observer.stepped(process)
        self._carry_out(process, effects)

    def _carry_out(self, process: Process, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Ask():
                    self._ask(process, effect)
                case Answer(caller, response):
                    self._answer(process.address, caller, response)
                case WakeAt(clock_ms):
                    self._wake(process, clock_ms)
                case Run(token, job):
                    self._run(process, token, job)

    def _wake(self, process: Process, clock_ms: int) -> None:
        life = process.life
        self.at(max(clock_ms, self.now_ms), lambda: self.deliver(process, life, Woken()))

    def _run(self, process: Process, token: int, job: Callable[[], object]) -> None:
        life = process.life
        try:
            result = job()
        except PowerCut:
            self._power_cut(process)
            return
        except Exception as error:  # noqa: BLE001  the node decides what it means
            result = error
        took_ms = self.network.random.randint(1, self.longest_job_ms)
        self.after(took_ms, lambda: self.deliver(process, life, Ran(token, result)))

    def _power_cut(self, process: Process) -> None:
        self.tell(f"{name_of(process.address)} loses power in the middle of a write")
        self.cut_power(process.address)
        self.after(self.restart_ms, lambda: self.start(process.address))

    def _ask(self, process: Process, ask: Ask) -> None:
        life, token = process.life, ask.token
        process.waiting[token] = None

        def answered(response: object | None) -> None:
            if process.life == life and token in process.waiting:
                del process.waiting[token]
                self.deliver(process, life, Answered(token, response))

        self.send(process.address, ask.peer, ask.request, answered, ask.timeout_ms, LATEST)

    def send(
        self,
        source: Address,
        target: Address,
        request: object,
        answered: Then,
        timeout_ms: int,
        version: int,
    ) -> None:
        """A request on its way; `answered` is called with the response, or None, perhaps twice."""
        caller = _Caller(source, answered)
        receiver = self.processes[target]
        deadline = self.now_ms + timeout_ms
        for delay in self.network.delays(source, target, type(request)):
            # A client that gives up closes the connection: what is still on it never arrives.
            # Between brokers a message may come however late.
            if source > CLIENTS or self.now_ms + delay < deadline:
                self.after(delay, lambda: self._arrive(receiver, caller, request, version))
        self.at(deadline, lambda: answered(None))

    def _arrive(self, receiver: Process, caller: _Caller, request: object, version: int) -> None:
        if receiver.node is None:
            self.after(REFUSED_MS, lambda: caller.answered(None))
            return
        self.deliver(receiver, receiver.life, Asked(caller, request, version))

    def _answer(self, source: Address, caller: object, response: object) -> None:
        assert isinstance(caller, _Caller)
        for delay in self.network.delays(source, caller.address, type(response)):
            self.after(delay, lambda: caller.answered(response))


@dataclass(frozen=True, slots=True, eq=False)
class _Caller:
    address: Address
    answered: Then


def name_of(address: Address) -> str:
    return "the controller" if address == CONTROLLER else f"broker {address}"
