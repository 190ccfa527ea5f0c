"""What one can do to an embedded cluster, as coroutines on the cluster's own event loop.

Each returns when it has taken effect where a client would see it: an election, when every broker
that hears the controller knows of it. `embedded` makes blocking and awaitable methods of them.
Time and cleaning are in `embedded_cleaning`, what all rest on in `embedded_ground`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from sexton.base.errors import ConfigError
from sexton.base.kafka_options import spelled
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.machines.metadata import PartitionRecord
from sexton.node.controller import ControllerNode
from sexton.node.describe_replicas import offsets_of
from sexton.node.outside import CONTROLLER, Woken
from sexton.node.replica import Replica
from sexton.testing.cluster import PartitionState
from sexton.testing.embedded_cleaning import Cleaning
from sexton.testing.waiting import TimedOut

SLOW_MS = 400  # how long a request to or from a broker that was slowed down is under way


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where one replica stands, and what it may forget. All are exclusive upper bounds."""

    node: int
    leads: bool
    in_sync: bool
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    mcco: int  # its log is clean below
    mxfo: int  # and free of transactional data below
    mtro: int  # it may forget tombstones below
    mxro: int  # and markers below


class EmbeddedActions(Cleaning):
    async def start(self, timeout_s: float) -> None:
        try:
            self._cluster.start()
            await self._cluster.ready(timeout_s)
        except BaseException as error:
            self._cluster.stop()
            if isinstance(error, TimeoutError):
                raise TimedOut("the cluster", f"not ready within {timeout_s:g} s") from None
            raise

    async def shut_down(self) -> None:
        self._cluster.stop()

    # ── brokers ──

    async def kill(self, node: int) -> None:
        """As by kill -9: nothing is closed, nobody is told."""
        self._cluster.kill_broker(node)
        self._hasten(node)

    async def stop(self, node: int) -> None:
        """In good order: others lead what it led, and its files need no recovery."""
        await self._cluster.retire_broker(node)
        self._hasten(node)

    async def restart(self, node: int, timeout_s: float = 30.0) -> None:
        """Stops it if it runs, starts it again on the same files, waits until it is back."""
        await self._cluster.retire_broker(node)
        self._cluster.start_broker(node)

        def is_back() -> bool:
            broker = self._cluster.broker(node)
            return broker is not None and not broker.registration.fenced and self._is_active(node)

        await self._until(is_back, f"broker {node} back in the cluster", timeout_s)

    async def pause(self, node: int) -> None:
        """As by SIGSTOP: it keeps its connections and answers nobody."""
        self._cluster.pause_broker(node)
        self._hasten(node)

    async def resume(self, node: int) -> None:
        """Goes on where it was paused."""
        self._cluster.resume_broker(node)

    def _hasten(self, node: int) -> None:
        """A session is long, so that no broker is given up because this machine is busy. But who
        is gone on purpose need not be waited for: its session is about to end.
        """
        controller = self._cluster.hosts[CONTROLLER].node
        if self._noticed_after_ms is None or not isinstance(controller, ControllerNode):
            return
        ends_ms = self._cluster.clock.monotonic_ms() + self._noticed_after_ms
        sessions = controller.machine.brokers.sessions
        if node in sessions:
            sessions[node] = min(sessions[node], ends_ms)
        controller.outside.after(0, controller._tick)  # it sets its alarm anew
        self._cluster.switchboard.deliver(self._cluster.hosts[CONTROLLER], Woken())

    def _is_active(self, node: int) -> bool:
        known = self._cluster.image.brokers.get(node)
        return known is not None and known.active

    def _check(self, *nodes: int) -> None:
        for node in nodes:
            self._cluster.broker(node)  # ConfigError if there is none of this number

    # ── the network between them ──

    async def isolate(self, node: int) -> None:
        """Cuts a broker off from the others and the controller; clients still reach it."""
        self._cluster.isolate(node)
        self._hasten(node)

    async def cut(self, one: int, other: int) -> None:
        """Cuts the link between two brokers."""
        self._check(one, other)
        self._cluster.switchboard.cut(one, other)

    async def mend(self, one: int, other: int) -> None:
        """The link between two brokers is as before."""
        self._check(one, other)
        self._cluster.switchboard.mend(one, other)

    async def heal(self) -> None:
        """Every link is as before."""
        self._cluster.switchboard.mend_all()
        for node in self._cluster.numbers:
            await self.speed_up(node)

    async def slow_down(self, node: int, delay_ms: int = SLOW_MS) -> None:
        """What this broker asks the others, or they it, is long under way."""
        for other in self._others(node):
            self._cluster.switchboard.delay(node, other, delay_ms)

    async def speed_up(self, node: int) -> None:
        """What it asks arrives at once again."""
        for other in self._others(node):
            self._cluster.switchboard.delay(node, other, 0)

    async def hold_back(self, node: int) -> None:
        """Cuts a broker off from the others, and not from the controller: it copies nothing."""
        for other in self._others(node):
            self._cluster.switchboard.cut(node, other)

    async def let_go(self, node: int) -> None:
        """Its links to the other brokers are as before."""
        for other in self._others(node):
            self._cluster.switchboard.mend(node, other)

    def _others(self, node: int) -> list[int]:
        self._check(node)
        return [other for other in self._cluster.numbers if other != node]

    # ── topics ──

    async def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]] | int | None = None,
        configs: Mapping[str, object] | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """`assignment` is a number of partitions, or the replicas of each.

        Without it there are as many partitions as the brokers' `num.partitions` says.
        """
        chosen = tuple((name, spelled(value)) for name, value in (configs or {}).items())
        where: tuple[tuple[int, ...], ...] | None = None
        count, copies = -1, -1
        if assignment is None or isinstance(assignment, int):
            count = -1 if assignment is None else assignment
            copies = replication_factor or min(3, len(self._cluster.numbers))
        else:
            where = tuple(tuple(replicas) for replicas in assignment)
        request = admin.CreateTopic(None, topic, uuid.uuid4().hex, count, copies, where, chosen)
        await self._order(request)
        await self._everyone_knows(self._partitions_of(topic))

    async def delete_topic(self, topic: str) -> None:
        """Returns when every broker that listens knows."""
        partitions = self._partitions_of(topic)
        await self._order(admin.DeleteTopic(None, topic))
        await self._everyone_knows(partitions)

    def _partitions_of(self, topic: str) -> list[TopicPartition]:
        return [p for p in self._cluster.image.partitions if p.topic == topic]

    async def topics(self) -> list[str]:
        """All of them, internal ones too."""
        return sorted(self._cluster.image.topics)

    async def alter_topic(self, topic: str, configs: Mapping[str, object | None]) -> None:
        """Sets a topic's options; None takes one back to its default."""
        chosen = tuple((name, spelled(v)) for name, v in configs.items() if v is not None)
        unset = tuple(name for name, value in configs.items() if value is None)
        await self._order(admin.AlterConfigs(None, "topic", topic, chosen, unset))
        options = self._cluster.image.options_of("topic", topic)

        def known() -> bool:
            images = [broker.site.image for broker in self._listening()]
            return all(image.options_of("topic", topic) == options for image in images)

        await self._until(known, f"the options of {topic} known to every broker")

    async def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """Who leads and who follows; None if there is no such partition."""
        record = self._record(TopicPartition(topic, partition))
        return None if record is None else _state(record)

    async def wait_for(
        self,
        topic: str,
        partition: int,
        good: Callable[[PartitionState], bool],
        timeout_s: float = 60.0,
    ) -> PartitionState:
        """Waits until `good` says yes to a partition's state, and every broker knows of it."""
        at = TopicPartition(topic, partition)

        def look() -> PartitionState | None:
            record = self._record(at)
            return _state(record) if record is not None and good(_state(record)) else None

        def explain() -> str:
            record = self._record(at)
            return f"; it is {_state(record)}" if record else "; there is no such partition"

        state = await self._until(look, f"state of {at}", timeout_s, explain)
        await self._everyone_knows([at])
        return state

    async def leader_of(self, topic: str, partition: int = 0) -> int:
        """Who leads now; waits while nobody does."""
        return (await self.wait_for(topic, partition, lambda state: state.leader >= 0)).leader

    async def wait_until_in_sync(
        self, topic: str, partition: int = 0, *nodes: int, timeout_s: float = 60.0
    ) -> PartitionState:
        """Waits until these replicas, or all, are in the ISR."""
        return await self.wait_for(
            topic,
            partition,
            lambda state: set(nodes or state.replicas) <= set(state.isr),
            timeout_s,
        )

    async def elect(self, topic: str, partition: int, node: int) -> None:
        """Makes a replica the leader, once it is in sync: puts it first and elects."""
        state = await self.wait_for(topic, partition, lambda state: node in state.isr)
        others = tuple(each for each in state.replicas if each != node)
        if state.replicas[0] != node:
            await self._order(admin.Reassign(None, topic, partition, (node, *others)))
        if state.leader != node:
            await self._order(admin.Elect(None, topic, partition))
        await self.wait_for(topic, partition, lambda state: state.leader == node)

    async def begin_reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Starts to move a partition to these replicas."""
        await self._order(admin.Reassign(None, topic, partition, tuple(replicas)))
        await self._everyone_knows([TopicPartition(topic, partition)])

    async def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Moves a partition and waits until all of these replicas are in sync."""
        await self.begin_reassign(topic, partition, replicas)
        wanted = tuple(replicas)
        await self.wait_for(
            topic, partition, lambda s: s.replicas == wanted and set(s.isr) == set(wanted)
        )

    async def offsets(self, topic: str, partition: int = 0) -> dict[int, Offsets]:
        """Of every replica whose broker runs, by the broker's number."""
        at = TopicPartition(topic, partition)
        record = self._record(at)
        if record is None:
            raise ConfigError(str(at), "there is no such partition")
        found: dict[int, Offsets] = {}
        for node in record.replicas:
            broker = self._cluster.broker(node)
            replica = broker.replicas.by_partition.get(at) if broker else None
            if replica is not None:
                found[node] = _offsets(node, replica, record)
        return found


def _state(record: PartitionRecord) -> PartitionState:
    return PartitionState(record.leader, record.replicas, tuple(sorted(record.isr)))


def _offsets(node: int, replica: Replica, record: PartitionRecord) -> Offsets:
    found = offsets_of(replica)
    return Offsets(
        node, found.role == "leader", node in record.isr, found.log_start, found.last_stable,
        found.high_watermark, found.log_end, found.mcco, found.mxfo, found.mtro, found.mxro,
    )  # fmt: skip
