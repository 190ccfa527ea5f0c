"""From one set of replicas to another, without being fewer in between (KIP-455).

    replicas 1 2 3                           reassign to 1 4
    replicas 1 4 2 3   adding 4, removing 2 3     4 fetches and joins the ISR
    replicas 1 4                             as soon as all of 1 4 are in sync

What is being added can be dropped again, what is being removed can stay after all: a new target
replaces the old one, and no target means back to the origin. A replica that leaves and comes back
gets a new assignment number, and starts empty; one that was about to leave and stays keeps its own.

All functions here are about one partition's record alone. They return a draft: who leads after it,
and in which epoch, is for `elections` to say.
"""

from __future__ import annotations

from dataclasses import replace

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.compaction import NodeId
from sexton.machines.metadata import PartitionRecord


def towards(old: PartitionRecord, target: tuple[NodeId, ...], first_number: int) -> PartitionRecord:
    """The partition on its way to `target`; new replicas are numbered from `first_number`."""
    origin = origin_of(old)
    removing = tuple(node for node in origin if node not in target)
    adding = tuple(node for node in target if node not in origin)
    return _with_replicas(old, target + removing, adding, removing, first_number)


def cancelled(old: PartitionRecord) -> PartitionRecord:
    """The partition back with the replicas it had before."""
    return _with_replicas(old, origin_of(old), (), (), first_number=-1)


def completed(draft: PartitionRecord) -> PartitionRecord:
    """The same, or the end of its reassignment if all that are to stay are in sync.

    Where the only one in sync is in doubt, those that are to go may know better: they stay.
    """
    target = tuple(node for node in draft.replicas if node not in draft.removing)
    in_sync = all(node in draft.isr for node in target)
    if not draft.reassigning or not in_sync or draft.doubtful:
        return draft
    return _with_replicas(draft, target, (), (), first_number=-1)


def origin_of(partition: PartitionRecord) -> tuple[NodeId, ...]:
    """The replicas that a reassignment began with, or all."""
    return tuple(node for node in partition.replicas if node not in partition.adding)


def newcomers(old: PartitionRecord, target: tuple[NodeId, ...]) -> int:
    """How many assignment numbers it takes to get there."""
    return sum(node not in old.replicas for node in target)


def _with_replicas(
    old: PartitionRecord,
    replicas: tuple[NodeId, ...],
    adding: tuple[NodeId, ...],
    removing: tuple[NodeId, ...],
    first_number: int,
) -> PartitionRecord:
    isr = tuple(node for node in replicas if node in old.isr)
    if not isr:
        in_sync = ", ".join(map(str, old.isr))
        raise Refused(
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
            f"{old.at} would be left without a replica in sync, which is only {in_sync} now; "
            "keep it, or wait until another one has caught up",
        )
    numbers = old.members
    for node in replicas:
        if node not in numbers:
            numbers[node] = first_number
            first_number += 1
    return replace(
        old,
        replicas=replicas,
        assignments=tuple(numbers[node] for node in replicas),
        isr=isr,
        adding=adding,
        removing=removing,
    )
