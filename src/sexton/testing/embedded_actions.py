"""What one can do to an embedded cluster, as coroutines on the cluster's own event loop.

Each returns when it has taken effect where a client would see it: an election, when every broker
that hears the controller knows of it. `embedded` makes blocking and awaitable methods of them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from sexton.base.errors import ConfigError, PeerError, Refused
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.broker.cluster import LocalCluster
from sexton.broker.compiling import have_kernels
from sexton.machines import controller as admin
from sexton.machines.metadata import PartitionRecord
from sexton.node.broker import Broker
from sexton.node.controller import ControllerNode
from sexton.node.describe_replicas import offsets_of
from sexton.node.messages import CleanNow, CleanNowAnswer, ConferNow
from sexton.node.outside import CONTROLLER, Action, Woken
from sexton.node.replica import Leading, Replica
from sexton.testing.cluster import PartitionState
from sexton.testing.waiting import TimedOut

Seen = TypeVar("Seen")

LOOK_AGAIN_S = 0.001
SETTLE_S = 1.0  # for news of what may be forgotten to go round; a network that is cut takes longer
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


class EmbeddedActions:
    def __init__(self, cluster: LocalCluster, noticed_after_ms: int | None = None) -> None:
        self._cluster = cluster
        self._noticed_after_ms = noticed_after_ms

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

    async def running(self) -> list[int]:
        """The brokers that run, paused ones too."""
        return [node for node in self._cluster.numbers if self._cluster.broker(node) is not None]

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
        known = self._cluster.controller.image.brokers.get(node)
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
        self._check(node)
        for other in self._cluster.numbers:
            if other != node:
                self._cluster.switchboard.delay(node, other, delay_ms)

    async def speed_up(self, node: int) -> None:
        """What it asks arrives at once again."""
        self._check(node)
        for other in self._cluster.numbers:
            if other != node:
                self._cluster.switchboard.delay(node, other, 0)

    # ── topics ──

    async def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]] | int = 1,
        configs: Mapping[str, object] | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """`assignment` is a number of partitions, or the replicas of each."""
        spelled = tuple((name, _spelled(value)) for name, value in (configs or {}).items())
        where: tuple[tuple[int, ...], ...] | None = None
        count, copies = -1, -1
        if isinstance(assignment, int):
            count = assignment
            copies = replication_factor or min(3, len(self._cluster.numbers))
        else:
            where = tuple(tuple(replicas) for replicas in assignment)
        request = admin.CreateTopic(None, topic, uuid.uuid4().hex, count, copies, where, spelled)
        await self._order(request)
        partitions = [TopicPartition(topic, n) for n in range(len(where) if where else count)]
        await self._everyone_knows(partitions)

    async def delete_topic(self, topic: str) -> None:
        partitions = [p for p in self._cluster.controller.image.partitions if p.topic == topic]
        await self._order(admin.DeleteTopic(None, topic))
        await self._everyone_knows(partitions)

    async def topics(self) -> list[str]:
        """All of them, internal ones too."""
        return sorted(self._cluster.controller.image.topics)

    async def alter_topic(self, topic: str, configs: Mapping[str, object | None]) -> None:
        """Sets a topic's options; None takes one back to its default."""
        chosen = tuple((name, _spelled(v)) for name, v in configs.items() if v is not None)
        unset = tuple(name for name, value in configs.items() if value is None)
        await self._order(admin.AlterConfigs(None, "topic", topic, chosen, unset))
        options = self._cluster.controller.image.options_of("topic", topic)

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

    # ── time and cleaning ──

    async def advance_clock(self, by: timedelta | int) -> None:
        """The time of day goes forward, by so much or so many milliseconds.

        It decides about retention, delete horizons, the age of segments and transaction timeouts.
        Sessions, heartbeats and request timeouts go by another clock, which nobody can move.
        """
        ms = int(by.total_seconds() * 1000) if isinstance(by, timedelta) else by
        if ms < 0:
            raise ConfigError("advance_clock", f"by {ms} ms", "time goes forward only")
        self._cluster.clock.ahead_ms += ms

    async def now_ms(self) -> int:
        """The time of day as the brokers have it."""
        return self._cluster.clock.now_ms()

    async def let_time_pass(self, ms: int) -> None:
        """The clock goes forward, and brokers do what is due by it: retention and cleaning."""
        await self.advance_clock(ms)
        for node in self._cluster.numbers:
            broker = self._cluster.broker(node)
            if broker is not None and not self._is_paused(node):
                self._act(node, broker, broker.replicas._retain)
        await self.clean()

    async def clean(self, *nodes: int, force: bool = False) -> None:
        """One pass over every log that is worth it, on these brokers or on all that run.

        Then the replicas tell each other how far they got. With `force` a new segment begins first
        and the dirty ratio does not count, so that everything up to the end is cleaned.
        """
        await asyncio.to_thread(have_kernels)
        # A follower learns of the high watermark with its next fetch, and cleans only below it.
        known = self._high_watermarks()
        await self._calm(
            lambda: all(high >= known.get(at, 0) for at, high in self._in_sync()),
            "news of high watermarks with followers",
        )
        for node in nodes or [n for n in await self.running() if not self._is_paused(n)]:
            await self._clean_broker(node, force)
        await self._confer()

    def _is_paused(self, node: int) -> bool:
        return self._cluster.hosts[node].paused

    async def _clean_broker(self, node: int, force: bool) -> None:
        broker = self._broker_or_raise(node)
        if self._is_paused(node):
            raise ConfigError(f"broker {node}", "is paused and cleans nothing", "resume it first")
        if not force:
            await self._clean_what_is_due(node, broker)
            return
        answer = await self._cluster.ask(node, CleanNow())
        if not isinstance(answer, CleanNowAnswer):
            raise ConfigError(f"broker {node}", "went away while it was cleaning")
        for partition, why in answer.failed:
            raise PeerError(f"broker {node}", f"cannot clean {partition}: {why}")

    async def _clean_what_is_due(self, node: int, broker: Broker) -> None:
        """What the broker's own timer does, for each log at once."""

        def idle() -> bool:
            return self._cluster.broker(node) is not broker or not broker.cleaning._busy

        def looked_at(replica: Replica, looks: list[None]) -> bool:
            if not looks and idle():  # its own timer may begin another pass before it hears this
                self._act(node, broker, partial(_begin_pass, broker, replica, looks))
            return bool(looks) or self._cluster.broker(node) is not broker

        for replica in list(broker.replicas.by_partition.values()):
            look = partial(looked_at, replica, [])
            await self._until(look, f"broker {node} done with a pass over {replica.partition}")
            if self._cluster.broker(node) is not broker:
                raise ConfigError(f"broker {node}", "went away while it was cleaning")
        await self._until(idle, f"broker {node} done with its passes")

    async def _confer(self) -> None:
        """A round of the conversation about what may be forgotten, which leaders begin by timer."""
        for node in self._cluster.numbers:
            if self._cluster.broker(node) is not None and not self._is_paused(node):
                await self._cluster.ask(node, ConferNow())
        await self._calm(self._agreed, "replicas agreed on what may be forgotten")

    async def _calm(self, settled: Callable[[], bool], what: str) -> None:
        """Gives the brokers a moment to hear of each other what there is to hear."""
        try:
            await self._until(settled, what, SETTLE_S)
        except TimedOut:
            pass  # somebody does not answer, perhaps on purpose: cleaning goes on with what it has

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        """The highest that anybody has, of every partition."""
        highest: dict[TopicPartition, int] = {}
        for at, known in self._in_sync():
            highest[at] = max(known, highest.get(at, 0))
        return highest

    def _in_sync(self) -> Iterator[tuple[TopicPartition, int]]:
        """The high watermarks of all replicas that are in sync and can be asked."""
        for at, record in self._cluster.controller.image.partitions.items():
            for node in record.isr:
                broker = self._cluster.broker(node)
                replica = broker.replicas.by_partition.get(at) if broker else None
                if replica is not None and not self._is_paused(node):
                    yield at, replica.log.high_watermark

    def _agreed(self) -> bool:
        return all(
            self._agreed_on(replica, role)
            for broker in self._listening()
            for replica in broker.replicas.by_partition.values()
            if isinstance(role := replica.role, Leading)
        )

    def _agreed_on(self, replica: Replica, role: Leading) -> bool:
        talk = role.compaction
        if talk is None:
            return True
        if talk.proposed != talk.removable:
            return False
        for node, report in talk.reports.items():
            broker = self._cluster.broker(node)
            other = broker.replicas.by_partition.get(replica.partition) if broker else None
            if other is None or self._is_paused(node) or not other.state.accepted:
                continue
            if (report.progress, talk.removable) != (other.progress, other.removable):
                return False
        return True

    # ── how it is done ──

    async def _order(self, request: object) -> None:
        """Has the controller do something; Refused if it does not."""
        answer = await self._cluster.ask(CONTROLLER, request)
        if answer is None:
            raise PeerError("the controller", "did not answer")
        if isinstance(answer, admin.Failed):
            raise Refused(answer.error, answer.message)

    def _record(self, at: TopicPartition) -> PartitionRecord | None:
        return self._cluster.controller.image.partitions.get(at)

    def _broker_or_raise(self, node: int) -> Broker:
        broker = self._cluster.broker(node)
        if broker is None:
            raise ConfigError(f"broker {node}", "does not run", f"restart({node}) starts it")
        return broker

    def _listening(self) -> list[Broker]:
        """Brokers that hear what the controller says."""
        found = []
        for node in self._cluster.numbers:
            broker = self._cluster.broker(node)
            heard = not self._cluster.switchboard.is_cut(CONTROLLER, node)
            if broker is not None and heard and not self._is_paused(node):
                found.append(broker)
        return found

    async def _everyone_knows(self, partitions: list[TopicPartition]) -> None:
        def known() -> bool:
            images = [broker.site.image for broker in self._listening()]
            return all(
                i.partitions.get(at) == self._record(at) for i in images for at in partitions
            )

        names = ", ".join(map(str, partitions[:3]))
        await self._until(known, f"news of {names} with every broker")

    def _act(self, node: int, broker: Broker, action: Action) -> None:
        """Has a node do something as if a timer of its own had come."""
        broker.site.outside.after(0, action)
        self._cluster.switchboard.deliver(self._cluster.hosts[node], Woken())

    async def _until(
        self,
        ask: Callable[[], Seen | None],
        what: str,
        timeout_s: float = 30.0,
        explain: Callable[[], str] = lambda: "",
    ) -> Seen:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            answer = ask()
            if answer is not None and answer is not False:
                return answer
            if loop.time() > deadline:
                raise TimedOut(what, f"not within {timeout_s:g} s{explain()}")
            await asyncio.sleep(LOOK_AGAIN_S)


def _begin_pass(broker: Broker, replica: Replica, looks: list[None]) -> None:
    """A pass if the log is worth it, unless another one is under way: `looks` grows if not."""
    if looks or broker.cleaning._busy:
        return
    looks.append(None)
    bounds, now_ms = replica.removable, broker.site.now_ms
    candidate = replica.cleaning.candidate(replica.log, now_ms, bounds.mtro, bounds.mxro)
    if candidate is not None:
        broker.cleaning._clean(replica, candidate)


def _state(record: PartitionRecord) -> PartitionState:
    return PartitionState(record.leader, record.replicas, tuple(sorted(record.isr)))


def _offsets(node: int, replica: Replica, record: PartitionRecord) -> Offsets:
    found = offsets_of(replica)
    return Offsets(
        node, found.role == "leader", node in record.isr, found.log_start, found.last_stable,
        found.high_watermark, found.log_end, found.mcco, found.mxfo, found.mtro, found.mxro,
    )  # fmt: skip


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
