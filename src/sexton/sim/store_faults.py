"""What can happen to the instances of an application with state stores.

The group notices that one is gone when its session ends, or at once if it says so; then somebody
else is promoted. One that stood still does not know what has happened meanwhile.
"""

from __future__ import annotations

from random import Random

from sexton.sim.stage import Instance, Stage, Undo, fault


def _any_instance(stage: Stage, random: Random) -> Instance | None:
    running = [each for each in stage.instances if each.up]
    return random.choice(running) if running else None


@fault
def killed_instance(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """kill -9 of an instance with state stores: its local stores stay."""
    instance = _any_instance(stage, random)
    if instance is None:
        return None
    instance.kill()
    return f"instance {instance.name} is killed", instance.start


@fault
def paused_instance(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """An instance stands still, and goes on as if it still owned its tasks."""
    instance = _any_instance(stage, random)
    if instance is None:
        return None
    instance.pause()
    return f"instance {instance.name} is paused", instance.resume


@fault
def closed_instance(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """An instance leaves its group in good order, and comes back later."""
    instance = _any_instance(stage, random)
    if instance is None:
        return None
    instance.close()
    return f"instance {instance.name} is closed", instance.start


@fault
def hanging_member(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """An instance does not talk to its group for a while; its tasks go on."""
    instance = _any_instance(stage, random)
    if instance is None:
        return None
    instance.hang()
    return f"instance {instance.name} does not talk to its group", instance.go_on


@fault
def lost_store(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """An instance is killed, and its local stores are gone."""
    instance = _any_instance(stage, random)
    if instance is None:
        return None
    instance.kill()
    instance.lose_disk()
    return f"instance {instance.name} loses its local stores", instance.start
