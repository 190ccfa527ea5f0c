"""What can go wrong: every kind of fault, how it begins and how it ends.

A fault is a function that is given the stage and its own source of chance. It does its harm, says
in a sentence what it did, and returns what undoes it, if there is anything to undo. Whom it hits is
decided when it happens: a fault that wants the leader hits whoever leads then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.machines.metadata import PartitionRecord
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE
from sexton.node.messages import (
    AnnounceRemovable,
    CollectProgress,
    CollectProgressAnswer,
    LeaveCluster,
    RegisterReplicas,
    WriteMarkers,
)
from sexton.node.outside import CONTROLLER
from sexton.protocol.messages.fetch import FetchRequest, FetchResponse
from sexton.sim.checks import Checks
from sexton.sim.fused_disk import FusedDisk
from sexton.sim.world import Process, World, name_of

Undo = Callable[[], None]
ADMIN = -50  # the address of the one who gives orders
HOUR_MS = 3_600_000
HAND_OVER_MS = 30_000  # what an operator waits for a broker that leaves
COMPACTION_FILE = "compaction-offsets"


@dataclass(slots=True)
class Stage:
    world: World
    checks: Checks
    partitions: tuple[TopicPartition, ...]
    unclean_allowed: bool
    calm: bool = False  # the run is over: things that come late do no more harm

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
FAULTS: dict[str, Fault] = {}


def fault(function: Fault) -> Fault:
    FAULTS[function.__name__.replace("_", "-")] = function
    return function


def _any_broker(stage: Stage, random: Random) -> int | None:
    running = stage.running()
    return random.choice(running) if running else None


def _restart(stage: Stage, address: int) -> Undo:
    return lambda: stage.world.start(address)


# ── the network ──


@fault
def dropped_messages(stage: Stage, random: Random) -> tuple[str, Undo]:
    """A share of all messages is lost."""
    weather = stage.world.network.weather
    before, weather.drop = weather.drop, random.choice((0.01, 0.05, 0.2))
    return f"{weather.drop:.0%} of all messages are lost", lambda: setattr(weather, "drop", before)


@fault
def delayed_messages(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Every message takes longer."""
    weather = stage.world.network.weather
    before, slowest = weather.delay_ms, random.choice((500, 5_000, 20_000))
    weather.delay_ms = (1, slowest)
    return f"messages take up to {slowest} ms", lambda: setattr(weather, "delay_ms", before)


@fault
def repeated_messages(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Some messages arrive twice."""
    weather = stage.world.network.weather
    before, weather.duplicate = weather.duplicate, random.choice((0.02, 0.1, 0.3))
    share = f"{weather.duplicate:.0%} of all messages arrive twice"
    return share, lambda: setattr(weather, "duplicate", before)


@fault
def reordered_messages(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Some messages arrive minutes after later ones."""
    weather = stage.world.network.weather
    before, weather.stray = weather.stray, random.choice((0.01, 0.05, 0.2))
    weather.stray_ms = random.choice((60_000, 600_000, HOUR_MS))
    told = f"{weather.stray:.0%} of all messages are up to {weather.stray_ms // 1000} s late"
    return told, lambda: setattr(weather, "stray", before)


@fault
def one_way_cut(stage: Stage, random: Random) -> tuple[str, Undo]:
    """A broker hears another, but is not heard by it."""
    network, (source, target) = stage.world.network, random.sample(stage.brokers(), 2)
    network.cut(source, target)
    told = f"nothing gets from broker {source} to broker {target}"
    return told, lambda: network.mend(source, target)


@fault
def cut_between_two(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Two brokers do not hear each other; the controller hears both."""
    network, (one, other) = stage.world.network, random.sample(stage.brokers(), 2)
    network.cut(one, other)
    network.cut(other, one)

    def undo() -> None:
        network.mend(one, other)
        network.mend(other, one)

    return f"brokers {one} and {other} do not reach each other", undo


def _isolate(stage: Stage, address: int) -> Undo:
    network = stage.world.network
    others = [other for other in stage.world.processes if other != address]
    for other in others:
        network.cut(address, other)
        network.cut(other, address)

    def undo() -> None:
        for other in others:
            network.mend(address, other)
            network.mend(other, address)

    return undo


@fault
def isolated_broker(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A broker is cut off from all others and the controller, but not from clients."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    return f"broker {address} is cut off", _isolate(stage, address)


@fault
def isolated_leader(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """The same with a leader: for a while it does not know that it was replaced."""
    leader = stage.leader(random.choice(stage.partitions))
    if leader is None:
        return None
    return f"broker {leader}, a leader, is cut off", _isolate(stage, leader)


@fault
def unheard_controller(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A broker does not reach the controller, but all other brokers."""
    network, address = stage.world.network, _any_broker(stage, random)
    if address is None:
        return None
    network.cut(address, CONTROLLER)
    told = f"broker {address} does not reach the controller"
    return told, lambda: network.mend(address, CONTROLLER)


@fault
def slow_broker(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """Everything to and from one broker takes seconds."""
    network, address = stage.world.network, _any_broker(stage, random)
    if address is None:
        return None
    network.slow[address] = random.choice((2_000, 15_000, 45_000))
    told = f"messages of broker {address} take {network.slow[address]} ms longer"
    return told, lambda: _forget(network.slow, address)


def _forget(slow: dict[int, int], address: int) -> None:
    slow.pop(address, None)


def _hold(stage: Stage, random: Random, what: str, *kinds: type) -> tuple[str, Undo]:
    holds = stage.world.network.holds
    delay = random.choice((HOUR_MS // 4, HOUR_MS, 6 * HOUR_MS))
    for kind in kinds:
        holds[kind] = delay

    def undo() -> None:
        for kind in kinds:
            holds.pop(kind, None)

    return f"{what} are {delay // 60_000} minutes late", undo


@fault
def late_announcements(stage: Stage, random: Random) -> tuple[str, Undo]:
    """What a leader announces arrives terms later."""
    return _hold(stage, random, "announcements", AnnounceRemovable)


@fault
def late_reports(stage: Stage, random: Random) -> tuple[str, Undo]:
    """How far a follower is clean arrives when it may not be true any more."""
    return _hold(stage, random, "reports", CollectProgress, CollectProgressAnswer)


@fault
def late_registrations(stage: Stage, random: Random) -> tuple[str, Undo]:
    """A follower's registration arrives after later ones."""
    return _hold(stage, random, "registrations", RegisterReplicas)


@fault
def late_markers(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Markers take longer than the transaction may."""
    return _hold(stage, random, "transaction markers", WriteMarkers)


@fault
def late_fetches(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Replication crawls: what a follower said of itself was true a while ago."""
    holds = stage.world.network.holds
    delay = random.choice((10_000, 60_000, 200_000))
    holds[FetchRequest] = holds[FetchResponse] = delay

    def undo() -> None:
        holds.pop(FetchRequest, None)
        holds.pop(FetchResponse, None)

    return f"fetches are {delay // 1000} s late", undo


# ── processes ──


@fault
def killed_broker(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """kill -9: what it wrote is still in the page cache."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    stage.world.kill(address)
    return f"broker {address} is killed", _restart(stage, address)


@fault
def killed_leader(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """kill -9 of a leader."""
    leader = stage.leader(random.choice(stage.partitions))
    if leader is None:
        return None
    stage.world.kill(leader)
    return f"broker {leader}, a leader, is killed", _restart(stage, leader)


@fault
def power_cut(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """What was not synced is gone, or torn, or full of zeros; so are renames."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    stage.world.cut_power(address)
    return f"broker {address} loses power", _restart(stage, address)


@fault
def power_cut_in_a_write(stage: Stage, random: Random) -> tuple[str, Undo | None] | None:
    """The same after some more operations on the disk, in the middle of whatever they are."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    disk = stage.world.processes[address].disk
    disk.fuse = random.randrange(60)
    return f"broker {address} will lose power {disk.fuse} disk operations from now", None


@fault
def power_cut_in_a_cleaning(stage: Stage, random: Random) -> tuple[str, Undo | None] | None:
    """The same while cleaned segments take the place of the old ones."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    process, count = stage.world.processes[address], random.randrange(25)
    broker = process.broker
    assert broker is not None
    swap = broker.cleaning.swap

    def fused(replica, prepared):  # type: ignore[no-untyped-def]
        process.disk.fuse = count
        broker.cleaning.swap = swap
        try:
            return swap(replica, prepared)
        finally:
            process.disk.fuse = None

    broker.cleaning.swap = fused
    return f"broker {address} will lose power in its next swap, after {count} operations", None


@fault
def power_cut_everywhere(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """The whole site is dark for a while."""
    running = stage.running()
    for address in running:
        stage.world.cut_power(address)

    def undo() -> None:
        for address in random.sample(running, len(running)):
            stage.world.start(address)

    return "the whole site loses power", undo


@fault
def paused_broker(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """It stands still, and then believes that no time has passed."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    stage.world.pause(address)
    return f"broker {address} is paused", lambda: stage.world.resume(address)


@fault
def restarted_in_good_order(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """An operator has it hand over what it leads, stops it and starts it again."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    world = stage.world
    world.resume(address)
    life = world.processes[address].life

    def stop(_answer: object | None = None) -> None:
        if world.processes[address].life == life:  # else it has been stopped or killed already
            world.stop(address)

    def undo() -> None:
        stop()
        world.start(address)

    world.send(address, address, LeaveCluster(), stop, HAND_OVER_MS, 0)  # not over the network
    return f"broker {address} is asked to leave, then stopped", undo


@fault
def restarted_one_after_another(stage: Stage, random: Random) -> tuple[str, Undo]:
    """A rolling restart, faster than it should be."""
    brokers = stage.brokers()
    for step, address in enumerate(random.sample(brokers, len(brokers))):
        delay = step * random.choice((60_000, 300_000))
        stage.world.after(delay, lambda address=address: stage.world.kill(address))  # type: ignore[misc]
        stage.world.after(
            delay + 45_000,
            lambda address=address: stage.world.start(address),  # type: ignore[misc]
        )
    return "all brokers are restarted, one after another", lambda: None


@fault
def killed_controller(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Nobody is elected and nothing changes until it is back."""
    if random.random() < 0.5:
        stage.world.kill(CONTROLLER)
        return "the controller is killed", _restart(stage, CONTROLLER)
    stage.world.cut_power(CONTROLLER)
    return "the controller loses power", _restart(stage, CONTROLLER)


@fault
def paused_controller(stage: Stage, _random: Random) -> tuple[str, Undo]:
    """It stands still."""
    stage.world.pause(CONTROLLER)
    return "the controller is paused", lambda: stage.world.resume(CONTROLLER)


# ── disks ──


@fault
def old_disk(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """An image of the disk is taken, and some time later put back."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    process = stage.world.processes[address]
    image = process.disk.image()

    def undo() -> None:
        if not stage.calm:
            _replace_disk(stage, process, image)
            stage.world.tell(f"broker {address}'s old disk is put back")

    return f"broker {address}'s disk is copied, to be put back later", undo


@fault
def new_disk(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A disk dies and is replaced by an empty one."""
    address = _any_broker(stage, random)
    if address is None or any(
        record is not None and record.isr == (address,)
        for record in map(stage.record, stage.partitions)
    ):
        return None  # it would be the only copy
    process = stage.world.processes[address]
    stage.world.kill(address)
    process.disk = FusedDisk()
    stage.checks.disk_replaced(address)
    return f"broker {address} gets an empty disk", _restart(stage, address)


def _replace_disk(stage: Stage, process: Process, disk: FusedDisk) -> None:
    stage.world.kill(process.address)
    process.disk = disk
    stage.checks.disk_replaced(process.address)
    stage.world.after(60_000, _restart(stage, process.address))


@fault
def full_disk(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """There is room for a few more bytes, and then none."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    process = stage.world.processes[address]
    process.disk.memory.room_bytes = room = random.randrange(5_000)

    def undo() -> None:
        process.disk.memory.room_bytes = None

    return f"broker {address}'s disk has {room} bytes left", undo


@fault
def flipped_bit(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A bit of a sealed segment turns over, and an hour later the sector can be read again."""
    address = _any_broker(stage, random)
    broker = address and stage.world.processes[address].broker
    if not address or not broker or address in stage.checks.rotten:
        return None
    replica = broker.replicas.by_partition.get(random.choice(stage.partitions))
    sealed = [s for s in replica.log.segments[:-1] if s.size] if replica else []
    if not sealed:
        return None
    segment = random.choice(sealed)
    path, place, bit = segment.path(".log"), random.randrange(segment.size), random.randrange(8)
    healthy = segment.log.read_at(0, segment.size)
    broken = bytearray(healthy)
    broken[place] ^= 1 << bit

    def turn() -> None:
        """And back again; the segment may have been cleaned or removed meanwhile."""
        disk = stage.world.processes[address].disk
        if disk.exists(path) and bytes(disk.read(path)) in (healthy, bytes(broken)):
            disk.memory.flip(path, place, bit)

    def undo() -> None:
        stage.checks.rotten.pop(address, None)
        turn()

    turn()
    stage.checks.rotten[address] = turn
    return f"a bit of {path} on broker {address} turns over", undo


@fault
def damaged_checkpoint(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A small file that a replica keeps is unreadable after a crash."""
    address = _any_broker(stage, random)
    if address is None:
        return None
    process = stage.world.processes[address]
    partition = random.choice(stage.partitions)
    name = random.choice(
        (
            f"{partition}/{COMPACTION_FILE}",
            f"{partition}/leader-epoch-checkpoint",
            "replication-offset-checkpoint",
            "recovery-point-offset-checkpoint",
        )
    )
    stage.world.kill(address)
    if process.disk.exists(name):
        file = process.disk.memory.open(name)
        file.truncate(random.randrange(max(file.size, 1)))
        file.sync()
        stage.checks.disk_replaced(address)
    return f"{name} on broker {address} is torn", _restart(stage, address)


# ── clocks ──


def _shift_clock(stage: Stage, address: int, shift_ms: int) -> None:
    stage.world.processes[address].ahead_ms += shift_ms


@fault
def skewed_clock(stage: Stage, random: Random) -> tuple[str, Undo]:
    """One broker's clock is minutes off."""
    address, shift = random.choice(stage.brokers()), random.choice((-1, 1)) * 300_000
    _shift_clock(stage, address, shift)
    told = f"broker {address}'s clock is {shift // 1000} s off"
    return told, lambda: _shift_clock(stage, address, -shift)


@fault
def clock_jumps_ahead(stage: Stage, random: Random) -> tuple[str, Undo]:
    """One broker believes for a while that hours or days have passed."""
    address, shift = random.choice(stage.brokers()), random.choice((6, 30)) * HOUR_MS
    _shift_clock(stage, address, shift)
    told = f"broker {address}'s clock jumps {shift // HOUR_MS} h ahead"
    return told, lambda: _shift_clock(stage, address, -shift)


@fault
def clock_falls_back(stage: Stage, random: Random) -> tuple[str, Undo]:
    """One broker's clock is set back by hours."""
    address, shift = random.choice(stage.brokers()), -random.choice((2, 12)) * HOUR_MS
    _shift_clock(stage, address, shift)
    told = f"broker {address}'s clock is set back by {-shift // HOUR_MS} h"
    return told, lambda: _shift_clock(stage, address, -shift)


# ── membership and elections ──


@fault
def moved_replica(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A replica moves to another broker, and later back."""
    return _reassign(stage, random, back=True)


@fault
def removed_replica(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A replica is removed and, while the removed one still has its log, added again."""
    partition = random.choice(stage.partitions)
    record = stage.record(partition)
    if record is None or record.reassigning or len(record.replicas) < 2:
        return None
    gone = random.choice(record.replicas)
    kept = tuple(node for node in record.replicas if node != gone)
    stage.order(admin.Reassign(None, *partition, kept))
    original = record.replicas
    undo = lambda: stage.order(admin.Reassign(None, *partition, original))  # noqa: E731
    return f"{partition} loses its replica on broker {gone}", undo


def _reassign(stage: Stage, random: Random, *, back: bool) -> tuple[str, Undo] | None:
    partition = random.choice(stage.partitions)
    record = stage.record(partition)
    if record is None or record.reassigning:
        return None
    spare = [node for node in stage.brokers() if node not in record.replicas]
    if not spare:
        return None
    gone, fresh = random.choice(record.replicas), random.choice(spare)
    target = tuple(fresh if node == gone else node for node in record.replicas)
    stage.order(admin.Reassign(None, *partition, target))
    original = record.replicas if back else target
    undo = lambda: stage.order(admin.Reassign(None, *partition, original))  # noqa: E731
    return f"{partition} moves from broker {gone} to broker {fresh}", undo


@fault
def preferred_election(stage: Stage, random: Random) -> tuple[str, Undo | None]:
    """Leadership goes back to the first replica."""
    partition = random.choice(stage.partitions)
    stage.order(admin.Elect(None, *partition))
    return f"{partition} elects its preferred leader", None


@fault
def coordinator_move(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """The broker that coordinates transactions or groups is killed for a moment."""
    topic = random.choice((TRANSACTION_STATE, CONSUMER_OFFSETS))
    leader = stage.leader(TopicPartition(topic, 0))
    if leader is None:
        return None
    stage.world.kill(leader)
    stage.world.after(random.randint(5_000, 300_000), _restart(stage, leader))
    return f"broker {leader}, which coordinates {topic}, is killed", lambda: None


@fault
def unclean_election(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """All that are in sync die, and an operator makes one lead that is not."""
    partition = random.choice(stage.partitions)
    record = stage.record(partition)
    if not stage.unclean_allowed or record is None or len(record.isr) == len(record.replicas):
        return None
    for node in record.isr:
        stage.world.kill(node)
    after = random.randint(400_000, 900_000)
    stage.world.after(after, lambda: stage.order(admin.Elect(None, *partition, unclean=True)))

    def undo() -> None:
        for node in record.isr:
            stage.world.start(node)

    return f"{partition} loses all that are in sync {record.isr}", undo


# ── configuration ──


@fault
def changed_retention(stage: Stage, random: Random) -> tuple[str, Undo]:
    """`delete.retention.ms` is lowered for a while."""
    topic = random.choice(stage.partitions).topic
    lowered = str(random.choice((60_000, HOUR_MS)))
    stage.order(admin.AlterConfigs(None, "topic", topic, (("delete.retention.ms", lowered),)))
    undo = lambda: stage.order(  # noqa: E731
        admin.AlterConfigs(None, "topic", topic, (), ("delete.retention.ms",))
    )
    return f"delete.retention.ms of {topic} is {lowered}", undo


@fault
def held_compaction(stage: Stage, random: Random) -> tuple[str, Undo]:
    """`min.compaction.lag.ms` keeps the cleaner away for a while."""
    topic = random.choice(stage.partitions).topic
    stage.order(
        admin.AlterConfigs(None, "topic", topic, (("min.compaction.lag.ms", str(48 * HOUR_MS)),))
    )
    undo = lambda: stage.order(  # noqa: E731
        admin.AlterConfigs(None, "topic", topic, (), ("min.compaction.lag.ms",))
    )
    return f"nothing of {topic} younger than two days is compacted", undo


def describe(name: str) -> str:
    return (FAULTS[name].__doc__ or "").strip()


__all__ = ["FAULTS", "Fault", "Stage", "describe", "fault", "name_of"]
