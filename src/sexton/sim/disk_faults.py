"""What can happen to disks: old ones put back, empty, full, a bit that turns over, a torn file."""

from __future__ import annotations

from random import Random

from sexton.sim.fused_disk import FusedDisk
from sexton.sim.stage import Stage, Undo, any_broker, fault, restart
from sexton.sim.world import Process

COMPACTION_FILE = "compaction-offsets"


@fault
def old_disk(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """An image of the disk is taken, and some time later put back."""
    address = any_broker(stage, random)
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
    address = any_broker(stage, random)
    if address is None or any(
        record is not None and record.isr == (address,)
        for record in map(stage.record, stage.partitions)
    ):
        return None  # it would be the only copy
    process = stage.world.processes[address]
    stage.world.kill(address)
    process.disk = FusedDisk()
    stage.checks.disk_replaced(address)
    return f"broker {address} gets an empty disk", restart(stage, address)


def _replace_disk(stage: Stage, process: Process, disk: FusedDisk) -> None:
    stage.world.kill(process.address)
    process.disk = disk
    stage.checks.disk_replaced(process.address)
    stage.world.after(60_000, restart(stage, process.address))


@fault
def full_disk(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """There is room for a few more bytes, and then none."""
    address = any_broker(stage, random)
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
    address = any_broker(stage, random)
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
    address = any_broker(stage, random)
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
    return f"{name} on broker {address} is torn", restart(stage, address)
