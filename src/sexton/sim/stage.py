"""Where faults happen: the cluster, whom they may hit, and the list of all kinds.

A fault is a function that is given the stage and its own source of chance. It does its harm, says
in a sentence what it did, and returns what undoes it, if there is anything to undo. Whom it hits is
decided when it happens: a fault that wants the leader hits whoever leads then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from sexton.base.partitions import TopicPartition
from sexton.machines.metadata import PartitionRecord
from sexton.node.outside import CONTROLLER
from sexton.sim.checks import Checks
from sexton.sim.world import World

Undo = Callable[[], None]
ADMIN = -50  # the address of the one who gives orders
HOUR_MS = 3_600_000


class Instance(Protocol):
    """A process of an application, as far as it can be harmed."""

    name: str
    up: bool

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def hang(self) -> None: ...
    def go_on(self) -> None: ...
    def lose_disk(self) -> None: ...


@dataclass(slots=True)
class Stage:
    world: World
    checks: Checks
    partitions: tuple[TopicPartition, ...]
    unclean_allowed: bool
    calm: bool = False  # the run is over: things that come late do no more harm
    instances: list[Instance] = field(default_factory=list)
    kept_topics: tuple[str, ...] = ()  # somebody relies on how long their tombstones stay

    def running(self) -> list[int]:
        return [a for a, p in self.world.processes.items() if p.broker is not None]

    def brokers(self) -> list[int]:
        return [address for address in self.world.processes if address != CONTROLLER]

    def record(self, partition: TopicPartition) -> PartitionRecord | None:
        return self.checks.image.partitions.get(partition)

    def leader(self, partition: TopicPartition) -> int | None:
        record = self.record(partition)
        return None if record is None or record.leader < 0 else record.leader

    def order(self, request: object) -> None:
        """Tells the controller; what it makes of it is its business."""
        self.world.send(ADMIN, CONTROLLER, request, lambda _answer: None, 60_000, 0)


Fault = Callable[[Stage, Random], tuple[str, Undo | None] | None]
KNOWN: dict[str, Fault] = {}  # in the order in which they were loaded; `faults` has the list


def fault(function: Fault) -> Fault:
    KNOWN[function.__name__.replace("_", "-")] = function
    return function


def any_broker(stage: Stage, random: Random) -> int | None:
    running = stage.running()
    return random.choice(running) if running else None


def restart(stage: Stage, address: int) -> Undo:
    return lambda: stage.world.start(address)
