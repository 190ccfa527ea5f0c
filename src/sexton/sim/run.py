"""One seed, from an empty cluster to a verdict.

    build ──▶ hours of work, with faults ──▶ heal ──▶ do all agree? ──▶ wait ──▶ is all tidy?

Healing ends every fault, starts every process, lets clients stop and transactions time out. Then
replicas must agree. After that time passes, with only a little traffic so that segments roll, and
what may be removed must be gone; under the policy `independent` nobody waits for that.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.machines.stores_events import TaskConfig
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE
from sexton.node.outside import CONTROLLER
from sexton.sim.checks import Checks, Counts, Violated, Violation
from sexton.sim.claims import Claims
from sexton.sim.clients import Client, Traffic
from sexton.sim.faults import FAULTS
from sexton.sim.options import HOUR_MS, MINUTE_MS, Options
from sexton.sim.plan import Planned, planned
from sexton.sim.readers import Committer, Reader
from sexton.sim.stage import Stage, Undo
from sexton.sim.store_checks import CHANGELOG, OUTPUT, StoreChecks
from sexton.sim.store_instance import StoreInstance
from sexton.sim.store_worker import StoreConfig
from sexton.sim.transactors import TV1, TV2, TransactionalWriter
from sexton.sim.world import World
from sexton.sim.writers import Habits, KeyedWriter

START_MS = 1_750_000_000_000
TOPIC = "orders"
SETTLE_MS = 2 * HOUR_MS
CATCH_UP_MS = 24 * HOUR_MS  # of instances, after the last input
NAMES = ("A", "B", "C", "D", "E")  # of instances with state stores
TASKS = 1  # of theirs: the input is the first partition of orders
SLACK = 12  # records and witnesses that the last rounds of traffic may leave


@dataclass(slots=True)
class Result:
    seed: int
    options: Options
    violation: Violation | None = None
    hours: float = 0.0
    events: int = 0
    counts: Counts = field(default_factory=Counts)
    traffic: Traffic = field(default_factory=Traffic)
    faults: dict[str, int] = field(default_factory=dict)
    messages_lost: int = 0
    messages_repeated: int = 0


Story = Callable[[int, str], None]


class Run:
    def __init__(
        self, options: Options, *, story: Story | None = None, without: frozenset[int] = frozenset()
    ) -> None:
        self.options = options
        self.result = Result(options.seed, options)
        self._without = without  # numbers of faults that are left out
        self.world = World(
            [options.broker(node) for node in range(1, options.brokers + 1)],
            options.controller(), options.seed, START_MS,
        )  # fmt: skip
        if story is not None:
            self.world.story = lambda line: story(self.world.now_ms - START_MS, line)
        topics = self._topics()
        coordinated = options.policy == "coordinated"
        self.checks: Checks = Claims(self.world, coordinated, lambda topic: topic in topics)
        self.orders = tuple(TopicPartition(TOPIC, n) for n in range(options.partitions))
        everything = tuple(
            TopicPartition(topic, n) for topic, count in topics.items() for n in range(count)
        )
        self.clients: list[Client] = []
        self.instances: list[StoreInstance] = []
        self.stage = Stage(self.world, self.checks, everything, options.unclean)
        self.stage.kept_topics = (CHANGELOG,)
        self._undo: dict[int, Undo] = {}
        self.injected: list[tuple[int, int, str]] = []  # number, time, what

    def go(self) -> Result:
        try:
            self._build()
            self._work()
            self._heal()
            self._tidy()
        except Violated as violated:
            self.result.violation = violated.violation
        except Exception as error:  # noqa: BLE001  whatever a node raises is a finding
            self.result.violation = self._crash(error)
        self._sum_up()
        return self.result

    def _crash(self, error: Exception) -> Violation:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno} in {last.name}"
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        self.traceback = "".join(traceback.format_exception(error))
        return Violation("crash", self.world.now_ms, place, what)

    traceback: str = ""

    # ── before ──

    def _build(self) -> None:
        world = self.world
        for address in world.processes:
            world.start(address)
        world.run_until(world.now_ms + 20 * MINUTE_MS)
        kept = (("delete.retention.ms", str(self.options.store_retention_ms)),)
        for number, (topic, partitions) in enumerate(self._topics().items()):
            internal = topic in (TRANSACTION_STATE, CONSUMER_OFFSETS)
            create = admin.CreateTopic(
                None, topic, f"{number + 1:032x}", partitions, 3, internal=internal,
                configs=kept if topic == CHANGELOG else (),
            )  # fmt: skip
            self.stage.order(create)
        if self.options.stores:  # said already; two orders on their way may overtake each other
            self.stage.order(admin.AlterConfigs(None, "topic", CHANGELOG, kept))
        world.run_until(world.now_ms + 20 * MINUTE_MS)
        self._hire()

    def _topics(self) -> dict[str, int]:
        """Every topic, and how many partitions it has."""
        partitions = self.options.partitions
        topics = {TOPIC: partitions, TRANSACTION_STATE: 1, CONSUMER_OFFSETS: 1}
        if self.options.stores:
            topics |= {OUTPUT: TASKS, CHANGELOG: TASKS}
        return topics

    def _hire(self) -> None:
        options, number = self.options, 0
        judge = self.judge = StoreChecks(self.checks, TASKS)
        habits = Habits(self.orders, options.keys, options.write_pause_ms, options.deletes)

        def common() -> tuple[World, Checks, Traffic, int, str]:
            nonlocal number
            number += 1
            seed = f"{options.seed} client {number}"
            return self.world, self.checks, self.result.traffic, number, seed

        for _ in range(options.writers):
            self.clients.append(KeyedWriter(*common(), habits))
        for index in range(options.transactional_writers):
            version = options.transaction_version or (TV1, TV2)[index % 2]
            group = f"t-group-{index}" if index % 2 == 0 else None
            timeout = (5 if index % 2 else 15) * MINUTE_MS
            self.clients.append(TransactionalWriter(*common(), habits, version, timeout, group))
        for _ in range(2):
            self.clients.append(Reader(*common(), self.orders, 20 * MINUTE_MS))
        self.clients.append(Committer(*common(), 10 * MINUTE_MS))
        for name in NAMES[: options.stores]:
            self.instances.append(StoreInstance(*common(), self._store(name), judge))
        self.stage.instances.extend(self.instances)
        for client in (*self.clients, *self.instances):
            client.start()  # type: ignore[attr-defined]

    def _store(self, name: str) -> StoreConfig:
        options = self.options
        task = TaskConfig(options.store_retention_ms, HOUR_MS, options.trust_local_checkpoint)
        version = options.transaction_version or TV2
        return StoreConfig(name, TASKS, task, version, options.store_pause_ms)

    # ── during ──

    def _work(self) -> None:
        world, options = self.world, self.options
        end = world.now_ms + options.hours * HOUR_MS
        for each in planned(options):
            if each.number not in self._without:
                self._plan(each)
        look = Random(f"{options.seed} looks")
        while world.now_ms < end:
            world.run_until(min(end, world.now_ms + look.randint(20, 200) * MINUTE_MS))
            self.checks.look_at_all()
            self._check_nodes()

    def _plan(self, fault: Planned) -> None:
        number, name = fault.number, fault.name

        def begin() -> None:
            done = FAULTS[name](self.stage, Random(f"{self.options.seed} fault {number}"))
            if done is None:
                return
            told, undo = done
            self.result.faults[name] = self.result.faults.get(name, 0) + 1
            self.injected.append((number, self.world.now_ms, told))
            self.world.tell(f"#{number} {told}")
            if undo is not None:
                self._undo[number] = undo
                self.world.after(fault.lasts_ms, lambda: end())

        def end() -> None:
            undo = self._undo.pop(number, None)
            if undo is not None:
                self.world.tell(f"#{number} is over")
                undo()

        self.world.at(START_MS + fault.at_ms, begin)

    def _check_nodes(self) -> None:
        for process in self.world.processes.values():
            if process.node is not None:
                process.node.check()

    # ── after ──

    def _heal(self) -> None:
        world = self.world
        world.tell("all faults end")
        self.stage.calm = True
        for number in sorted(self._undo):
            self._undo.pop(number)()
        world.network.heal()  # of two faults of a kind the second may have put back the first
        world.run_until(world.now_ms + 10 * MINUTE_MS)
        for address, process in world.processes.items():
            process.disk.fuse = None
            process.disk.memory.room_bytes = None
            world.resume(address)
            world.start(address)
        for instance in self.instances:
            instance.resume()
            instance.go_on()
            instance.start()
        world.run_until(world.now_ms + SETTLE_MS)
        self._lead_everything()
        self._stop_clients()
        world.run_until(world.now_ms + SETTLE_MS)
        if self.instances:
            self._stop_instances()
        self.checks.healed()
        for client in self.clients:
            if isinstance(client, TransactionalWriter):
                client.check_promises()

    def _stop_clients(self) -> None:
        """Those in a transaction are let go; the coordinator ends it for them."""
        self.world.tell("clients stop")
        for client in self.clients:
            client.stop()

    def _stop_instances(self) -> None:
        """There was time to count everything that was written, some records at a time."""
        enough_ms = self.world.now_ms + CATCH_UP_MS
        while not self.judge.caught_up and self.world.now_ms < enough_ms:
            self.world.run_until(self.world.now_ms + HOUR_MS)
        self.judge.finished()
        for instance in self.instances:
            instance.stop()
        self.world.run_until(self.world.now_ms + SETTLE_MS)

    def _lead_everything(self) -> None:
        """What cannot be led without loss is declared lost: the operator's last resort."""
        for partition in self.stage.partitions:
            record = self.stage.record(partition)
            if record is not None and record.leader < 0:
                self.checks.leaderless(partition, record)
                self.stage.order(admin.Elect(None, *partition, unclean=True))
        self.world.run_until(self.world.now_ms + SETTLE_MS)

    def _tidy(self) -> None:
        """Days with one write now and then, so that segments roll and cleaning goes on."""
        world, options = self.world, self.options
        if not options.tidy_days:
            return
        world.tell("time passes")
        number = len(self.clients) + 1
        habits = Habits(self.orders, 1, 3 * HOUR_MS, 0.0)
        seed = f"{options.seed} last writer"
        writer = KeyedWriter(world, self.checks, self.result.traffic, number, seed, habits)
        writer.start()
        world.run_until(world.now_ms + options.tidy_days * 24 * HOUR_MS)
        writer.stop()
        world.run_until(world.now_ms + HOUR_MS)
        self.checks.healed()
        if options.policy == "coordinated":
            self.checks.cleaned_up(SLACK, (TOPIC,))

    def _sum_up(self) -> None:
        result, world = self.result, self.world
        result.hours = (world.now_ms - START_MS) / HOUR_MS
        result.events = world.events
        result.counts = self.checks.counts
        result.messages_lost = world.network.lost
        result.messages_repeated = world.network.repeated


def run_seed(options: Options) -> Result:
    return Run(options).go()


__all__ = ["CONTROLLER", "Result", "Run", "run_seed"]
