"""What can happen to processes: killed, paused, without power, restarted."""

from __future__ import annotations

from random import Random

from sexton.node.messages import LeaveCluster
from sexton.node.outside import CONTROLLER
from sexton.sim.stage import Stage, Undo, any_broker, fault, restart

HAND_OVER_MS = 30_000  # what an operator waits for a broker that leaves


@fault
def killed_broker(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """kill -9: what it wrote is still in the page cache."""
    address = any_broker(stage, random)
    if address is None:
        return None
    stage.world.kill(address)
    return f"broker {address} is killed", restart(stage, address)


@fault
def killed_leader(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """kill -9 of a leader."""
    leader = stage.leader(random.choice(stage.partitions))
    if leader is None:
        return None
    stage.world.kill(leader)
    return f"broker {leader}, a leader, is killed", restart(stage, leader)


@fault
def power_cut(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """What was not synced is gone, or torn, or full of zeros; so are renames."""
    address = any_broker(stage, random)
    if address is None:
        return None
    stage.world.cut_power(address)
    return f"broker {address} loses power", restart(stage, address)


@fault
def power_cut_in_a_write(stage: Stage, random: Random) -> tuple[str, Undo | None] | None:
    """The same after some more operations on the disk, in the middle of whatever they are."""
    address = any_broker(stage, random)
    if address is None:
        return None
    disk = stage.world.processes[address].disk
    disk.fuse = random.randrange(60)
    return f"broker {address} will lose power {disk.fuse} disk operations from now", None


@fault
def power_cut_in_a_cleaning(stage: Stage, random: Random) -> tuple[str, Undo | None] | None:
    """The same while cleaned segments take the place of the old ones."""
    address = any_broker(stage, random)
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
    address = any_broker(stage, random)
    if address is None:
        return None
    stage.world.pause(address)
    return f"broker {address} is paused", lambda: stage.world.resume(address)


@fault
def restarted_in_good_order(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """An operator has it hand over what it leads, stops it and starts it again."""
    address = any_broker(stage, random)
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
        return "the controller is killed", restart(stage, CONTROLLER)
    stage.world.cut_power(CONTROLLER)
    return "the controller loses power", restart(stage, CONTROLLER)


@fault
def paused_controller(stage: Stage, _random: Random) -> tuple[str, Undo]:
    """It stands still."""
    stage.world.pause(CONTROLLER)
    return "the controller is paused", lambda: stage.world.resume(CONTROLLER)
