"""One seed of a recipe, with a mistake planted or without.

A recipe is a small cluster that a fault or two hit again and again. A trial of it hits the topic
that is looked at and nothing else, and is over when all has healed: that what may go does go is for
longer runs. The same seed without the mistake must find nothing, or it was not the mistake that was
found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

from sexton.base.partitions import TopicPartition
from sexton.log import memory_disk
from sexton.log.cleaner import Prepared
from sexton.machines import controller as admin
from sexton.node.broker import Broker
from sexton.node.coordinators import CONSUMER_OFFSETS
from sexton.node.outside import CONTROLLER
from sexton.node.replica import Replica
from sexton.sim.checks import Violation
from sexton.sim.claims import Claims
from sexton.sim.faults import FAULTS
from sexton.sim.network_faults import isolate
from sexton.sim.options import HOUR_MS, MINUTE_MS, Options
from sexton.sim.run import TOPIC, Result, Run
from sexton.sim.stage import Stage, Undo
from sexton.sim.store_checks import CHANGELOG
from sexton.sim.store_instance import StoreInstance
from sexton.sim.transactors import TransactionalWriter
from sexton.sim.world import World
from tests.simulation.planted.planting import planted

SMALL = Options(
    seed=0, hours=6, brokers=3, keys=4, writers=1, transactional_writers=2,
    write_pause_ms=3 * MINUTE_MS, deletes=0.4, segment_bytes=600, segment_ms=HOUR_MS,
    dirty_ratio=0.0, fault_pause_ms=40 * MINUTE_MS, fault_lasts_ms=40 * MINUTE_MS, tidy_days=0,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pace:
    """How those write who do transactions: some records, and then nothing for long."""

    pause_ms: int
    burst: int
    rest_ms: int


@dataclass(frozen=True, slots=True)
class Recipe:
    options: Options = SMALL
    retention_ms: int | None = 20 * MINUTE_MS  # of deletes; None: 24 hours
    transactions: Pace | None = None  # None: as all the others
    whole_files: float = 0.0  # how often a power cut spares a file that was not synced

    def seed(self, seed: int) -> Options:
        return replace(self.options, seed=seed)


def deaf_leader(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A leader reaches the controller, and does not hear its answers."""
    network, leader = stage.world.network, stage.leader(random.choice(stage.partitions))
    if leader is None:
        return None
    network.cut(CONTROLLER, leader)
    told = f"broker {leader}, a leader, does not hear the controller"
    return told, lambda: network.mend(CONTROLLER, leader)


def taken_over_unseen(stage: Stage, random: Random) -> tuple[str, Undo | None] | None:
    """All but one broker are cut off, among them the leaders of state and offsets. The owner of the
    task goes on with the one that is left, and is closed: the next one is told old news by most.
    """
    led = (TopicPartition(CHANGELOG, 0), TopicPartition(CONSUMER_OFFSETS, 0))
    leaders = {leader for at in led if (leader := stage.leader(at)) is not None}
    others = [each for each in stage.brokers() if each not in leaders]
    owners = [each for each in stage.instances if isinstance(each, StoreInstance) and each.owns]
    if not others or not owners or stage.world.network.cuts:
        return None
    left = random.choice(others)
    mend = [isolate(stage, each) for each in stage.brokers() if each != left]

    def close() -> None:
        for owner in owners if not stage.calm else []:
            owner.close()

    def end() -> None:
        for undo in mend:
            undo()
        for owner in owners:
            owner.start()

    stage.world.after(25 * MINUTE_MS, close)
    stage.world.after(180 * MINUTE_MS, end)
    return f"all brokers but {left} are cut off", None


def back_after_long(stage: Stage, random: Random) -> tuple[str, Undo | None] | None:
    """An instance with a copy is away while tombstones go. Once it is back, all others go."""
    instances = [each for each in stage.instances if isinstance(each, StoreInstance)]
    copying = [each for each in instances if each.up and not each.owns]
    if not copying or not all(each.up for each in instances):
        return None
    away = random.choice(copying)
    others = [each for each in instances if each is not away]

    def close() -> None:
        for other in others if not stage.calm else []:
            other.close()

    def end() -> None:
        for other in others:
            other.start()

    away.kill()
    stage.world.after(180 * MINUTE_MS, away.start)
    stage.world.after(190 * MINUTE_MS, close)
    stage.world.after(220 * MINUTE_MS, end)
    return f"instance {away.name} is away, and then all others are", None


OF_TRIALS = {
    "deaf-leader": deaf_leader,
    "taken-over-unseen": taken_over_unseen,
    "back-after-long": back_after_long,
}


class Collecting(Claims):
    """Goes on after a violation, for what is wrong in several ways; one for each kind and place."""

    def __init__(self, world: World, coordinated: bool, watched: Callable[[str], bool]) -> None:
        super().__init__(world, coordinated, watched)
        self.found: list[Violation] = []

    def _watch_cleaning(self, broker: Broker) -> None:
        """Looks before a pass, too: what a replica shows wrongly may be gone after it."""
        super()._watch_cleaning(broker)
        swap = broker.cleaning.swap

        def look_and_swap(replica: Replica, prepared: Prepared) -> bool:
            if self._watched(replica.partition.topic) and self.may_lead(replica):
                self.look(replica)
            return swap(replica, prepared)

        broker.cleaning.swap = look_and_swap

    def fail(self, kind: str, where: str, what: str) -> None:
        if not any((v.kind, v.where) == (kind, where) for v in self.found):
            self.found.append(Violation(kind, self.world.now_ms, where, what))


class Trial(Run):
    def __init__(self, recipe: Recipe, seed: int, *, collecting: bool = False) -> None:
        super().__init__(recipe.seed(seed))
        self._recipe = recipe
        if collecting:
            checks = self.checks
            self.checks = Collecting(self.world, checks.coordinated, checks._watched)
            self.stage.checks = self.checks

    def go(self) -> Result:
        with _circumstances(self._recipe):
            return super().go()

    def _build(self) -> None:
        super()._build()
        if self._recipe.retention_ms is not None:
            lowered = (("delete.retention.ms", str(self._recipe.retention_ms)),)
            self.stage.order(admin.AlterConfigs(None, "topic", TOPIC, lowered))

    def _hire(self) -> None:
        super()._hire()
        pace = self._recipe.transactions
        for client in self.clients if pace else ():
            if isinstance(client, TransactionalWriter) and pace:
                client.habits = replace(
                    client.habits, pause_ms=pace.pause_ms, burst=pace.burst, rest_ms=pace.rest_ms
                )

    def _work(self) -> None:
        everything, self.stage.partitions = self.stage.partitions, self.orders
        super()._work()
        self.stage.partitions = everything


@contextmanager
def _circumstances(recipe: Recipe) -> Iterator[None]:
    """What only trials know: faults of their own, and disks that write small files at once."""
    right = memory_disk._survivors

    def survivors(inode: memory_disk._Inode, random: Random) -> bytes:
        if recipe.whole_files and random.random() < recipe.whole_files:
            return bytes(inode.data)
        return right(inode, random)

    FAULTS.update(OF_TRIALS)
    memory_disk._survivors = survivors
    try:
        yield
    finally:
        memory_disk._survivors = right
        for name in OF_TRIALS:
            del FAULTS[name]


def trial(recipe: Recipe, seed: int, plant: str | None) -> Result:
    with planted(plant):
        return Trial(recipe, seed).go()


def collected(recipe: Recipe, seed: int, plant: str | None = None) -> list[Violation]:
    """Everything that a run finds, not only the first."""
    with planted(plant):
        run = Trial(recipe, seed, collecting=True)
        result = run.go()
    found = list(run.checks.found) if isinstance(run.checks, Collecting) else []
    return found if result.violation is None else [*found, result.violation]
