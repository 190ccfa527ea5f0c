"""Mistakes with state stores: what a task, its disk, its group or its broker must not do.

The first two are settings of the product that are there for the lab; the others are rules of
`machines.stores` and of the shell around it, left out one at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sexton.machines import stores as machine
from sexton.machines.stores_events import Effect
from sexton.machines.stores_events import Run as RunEffect
from sexton.machines.stores_phases import CatchingUp, Running
from sexton.node.config import BrokerConfig
from sexton.sim.conversations import Talk
from sexton.sim.options import MINUTE_MS, Options
from sexton.sim.run import Run
from sexton.sim.store_calls import Member
from sexton.sim.store_worker import StoreConfig, Worker
from tests.patching import Patch
from tests.simulation.planted.planting import plant

LATE_MS = 10 * MINUTE_MS


@plant
def trusted_checkpoint(patch: Patch) -> None:
    """A promoted standby believes what its own disk says, and reads no further."""

    def trusting(run: Run, name: str) -> StoreConfig:
        config: StoreConfig = right(run, name)
        return replace(config, task=replace(config.task, trust_local_checkpoint=True))

    right = patch(Run, "_store", trusting)


@plant
def acknowledged_before_applied(patch: Patch) -> None:
    """A broker acknowledges a marker before the offsets of the group are applied."""

    def early(options: Options, node: int) -> BrokerConfig:
        config: BrokerConfig = right(options, node)
        return replace(config, lab_markers_acknowledged_before_offsets_ms=LATE_MS)

    right = patch(Options, "broker", early)


@plant
def resumed_from_the_group(patch: Patch) -> None:
    """With such a broker, a task goes on from the group's offset, not from its changelog's."""
    acknowledged_before_applied(patch)

    def arrive(task: machine.Task, phase: CatchingUp) -> list[Effect]:
        task.phase = Running(phase.offset)
        return [RunEffect(phase.offset, promoted=True)]

    patch(machine.Task, "_arrive", arrive)


@plant
def generation_left_out(patch: Patch) -> None:
    """A transaction does not say for which generation of the group it is."""

    def anybody(worker: Worker, _member: Member, next_input: int) -> Talk[None]:
        return worker.producer.send_offset(Member("", -1), worker.input_at, next_input)

    patch(Worker, "_send_offset", anybody)


@plant
def nobody_fenced(patch: Patch) -> None:
    """Nor is the last owner fenced: each instance has a transactional id of its own."""
    generation_left_out(patch)
    patch(Worker, "transactional_id", property(lambda worker: f"{worker.name}-{worker.partition}"))


@plant
def overlay_before_commit(patch: Patch) -> None:
    """What a transaction changes is written to the disk before its commit is confirmed."""

    def early(worker: Worker, effect: Any) -> Talk[Any]:
        worker.disk.put(worker._overlay)
        talk: Talk[Any] = right(worker, effect)
        return talk

    right = patch(Worker, "_commit", early)


@plant
def landed_anywhere(patch: Patch) -> None:
    """An owner's first record may land anywhere, and the group's offset be ahead of its store."""

    def arrive(task: machine.Task, phase: CatchingUp) -> list[Effect]:
        effects: list[Effect] = right(task, replace(phase, offset=task.input_position))
        if isinstance(task.phase, Running):
            task.phase = replace(task.phase, lands_at=None)
        return effects

    right = patch(machine.Task, "_arrive", arrive)


@plant
def no_horizon(patch: Patch) -> None:
    """A store is read on however old it is, past tombstones that are gone."""
    patch(machine.Task, "_stale", lambda _task, _now_ms, _start, _mtro: False)
