"""Three whole brokers on a simulated network, disks and clock, as a `Cluster`.

The brokers are those of the embedded cluster; only what is around them is made up, so that days
pass in a second and every run is the same. Nobody reaches them from outside: `sim_hands` writes and
reads. Timers that are about forgetting have Kafka's defaults, 24 hours, wherever a scenario allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from sexton.base.errors import ConfigError, Refused
from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.machines.metadata import Image
from sexton.node.broker import Broker
from sexton.node.controller import ControllerNode
from sexton.node.coordinators import TRANSACTION_STATE
from sexton.node.outside import CONTROLLER
from sexton.sim.fused_disk import FusedDisk
from sexton.sim.network import CLIENTS, Address, Network
from sexton.sim.options import HOUR_MS, MINUTE_MS, Options
from sexton.sim.run import START_MS
from sexton.sim.world import World
from sexton.testing.cluster import PartitionState
from sexton.testing.waiting import TimedOut

OPERATOR: Final = -150
SLOW_MS: Final = 25_000  # of a request under way to or from a slow broker; it waits for 60 s
LOOK_AGAIN_MS: Final = 1_000
PATIENCE_MS: Final = 6 * HOUR_MS
CALL_MS: Final = 60_000


class SlowBetweenBrokers(Network):
    """Clients reach a slow broker as fast as any."""

    def _delay(self, source: Address, target: Address, kind: type) -> int:
        delay = super()._delay(source, target, kind)
        if min(source, target) > CLIENTS:
            return delay
        return delay - self.slow.get(source, 0) - self.slow.get(target, 0)


class SimCluster:
    def __init__(self, policy: str) -> None:
        options = Options(
            1, policy=policy, brokers=3, segment_bytes=100, dirty_ratio=0.0, fetch_bytes=1
        )
        brokers = [options.broker(node) for node in (1, 2, 3)]
        self.world = World(brokers, options.controller(), options.seed, START_MS)
        self.world.network = SlowBetweenBrokers(Random("network"))
        self.world.longest_job_ms = 1_000
        self.images: dict[int, FusedDisk] = {}
        self._topics = 0
        for address in self.world.processes:
            self.world.start(address)
        self.until(lambda: len(self._active()) == 3, "three brokers in the cluster")
        self.create_topic(TRANSACTION_STATE, [[1, 2, 3]])

    @property
    def bootstrap_servers(self) -> str:
        raise ConfigError("the simulator", "has no sockets for clients to connect to")

    @property
    def node_ids(self) -> list[int]:
        return [1, 2, 3]

    # ── the world, a little at a time ──

    @property
    def image(self) -> Image:
        node = self.world.processes[CONTROLLER].node
        assert isinstance(node, ControllerNode)
        return node.machine.image

    def broker(self, node: int) -> Broker | None:
        return self.world.processes[node].broker

    def until(self, ask: Callable[[], bool], what: str) -> None:
        """The world goes on until the answer is yes."""
        end = self.world.now_ms + PATIENCE_MS
        while not ask():
            if self.world.now_ms > end:
                raise TimedOut(what, f"not within {PATIENCE_MS // HOUR_MS} simulated hours")
            self.let_time_pass(LOOK_AGAIN_MS)

    def call(self, source: int, target: int, request: object, version: int) -> object | None:
        """One request and its answer; None if there is none."""
        answers: list[object | None] = []
        self.world.send(source, target, request, answers.append, CALL_MS, version)
        while not answers:
            self.let_time_pass(10)
        return answers[0]

    def let_time_pass(self, ms: int) -> None:
        self.world.run_until(self.world.now_ms + ms)

    def _order(self, request: object) -> None:
        answer = self.call(OPERATOR, CONTROLLER, request, 0)
        if isinstance(answer, admin.Failed):
            raise Refused(answer.error, answer.message)

    def _active(self) -> list[int]:
        return [node for node, known in self.image.brokers.items() if known.active]

    # ── topics ──

    def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]] | int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        if assignment is None:
            assignment = 1  # Kafka's num.partitions, if nobody sets it
        if isinstance(assignment, int):
            assignment = [[1, 2, 3]] * assignment
        self._topics += 1
        spelled = tuple((name, str(value)) for name, value in (configs or {}).items())
        self._order(
            admin.CreateTopic(
                None, topic, f"{self._topics:032x}", -1, -1, tuple(map(tuple, assignment)), spelled,
                internal=topic == TRANSACTION_STATE,
            )
        )  # fmt: skip
        self.leader_of(topic)

    def alter_topic(self, topic: str, configs: Mapping[str, object | None]) -> None:
        chosen = tuple((name, str(v)) for name, v in configs.items() if v is not None)
        unset = tuple(name for name, value in configs.items() if value is None)
        self._order(admin.AlterConfigs(None, "topic", topic, chosen, unset))
        self.let_time_pass(MINUTE_MS)  # every broker hears of it

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        record = self.image.partitions.get(TopicPartition(topic, partition))
        if record is None:
            return None
        return PartitionState(record.leader, record.replicas, tuple(sorted(record.isr)))

    def wait_for(
        self,
        topic: str,
        partition: int,
        good: Callable[[PartitionState], bool],
        timeout_s: float = 60.0,  # noqa: ARG002  of real time, which does not count here
    ) -> PartitionState:
        found: list[PartitionState] = []

        def look() -> bool:
            state = self.partition(topic, partition)
            found[:] = [state] if state is not None and good(state) else []
            return bool(found)

        self.until(look, f"state of {topic}-{partition}")
        return found[0]

    def leader_of(self, topic: str, partition: int = 0) -> int:
        return self.wait_for(topic, partition, lambda state: state.leader >= 0).leader

    def elect(self, topic: str, partition: int, node: int) -> None:
        state = self.wait_for(topic, partition, lambda state: node in state.isr)
        others = tuple(each for each in state.replicas if each != node)
        if state.replicas[0] != node:
            self._order(admin.Reassign(None, topic, partition, (node, *others)))
        if state.leader != node:
            self._order(admin.Elect(None, topic, partition))
        self.wait_for(topic, partition, lambda state: state.leader == node)

    def begin_reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        self._order(admin.Reassign(None, topic, partition, tuple(replicas)))

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        self.begin_reassign(topic, partition, replicas)
        wanted = tuple(replicas)
        self.wait_for(
            topic, partition, lambda s: s.replicas == wanted and set(s.isr) == set(wanted)
        )

    # ── brokers ──

    def kill(self, node: int) -> None:
        self.world.kill(node)

    def stop(self, node: int) -> None:
        self.world.stop(node)

    def restart(self, node: int) -> None:
        self.world.stop(node)
        self.world.start(node)

        def is_back() -> bool:
            broker = self.broker(node)
            return broker is not None and not broker.registration.fenced and node in self._active()

        self.until(is_back, f"broker {node} back in the cluster")

    def pause(self, node: int) -> None:
        self.world.pause(node)

    def resume(self, node: int) -> None:
        self.world.resume(node)

    def slow_down(self, node: int) -> None:
        self.world.network.slow[node] = SLOW_MS

    def speed_up(self, node: int) -> None:
        self.world.network.slow.pop(node, None)

    def hold_back(self, node: int) -> None:
        for other in self._others(node):
            self.world.network.cut(node, other)
            self.world.network.cut(other, node)

    def let_go(self, node: int) -> None:
        for other in self._others(node):
            self.world.network.mend(node, other)
            self.world.network.mend(other, node)

    def _others(self, node: int) -> list[int]:
        return [other for other in self.node_ids if other != node]

    # ── disks ──

    def data_directory(self, node: int) -> Path:
        raise ConfigError(f"broker {node}", "has a simulated disk", "`copy_out` makes real files")

    def copy_out(self, directory: Path) -> list[Path]:
        """All that the brokers have on their disks, as real files: a directory for each."""
        self.let_time_pass(10 * MINUTE_MS)  # high watermarks are checkpointed now and then
        copies = []
        for node in self.node_ids:
            copies.append(directory / f"broker-{node}")
            _copy(self.world.processes[node].disk, ".", copies[-1])
        return copies


def _copy(disk: FusedDisk, source: str, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in disk.names(source):
        path = name if source == "." else f"{source}/{name}"
        if disk.names(path):
            _copy(disk, path, target / name)
        else:
            (target / name).write_bytes(disk.read(path))
