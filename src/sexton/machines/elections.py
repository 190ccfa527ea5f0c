"""Who leads a partition, and what has been lost by it?

A leader stays as long as it is in the ISR and active. Else the first of the replicas leads that is
both: the ISR holds everything that was ever acknowledged, so nothing is lost. The last member stays
in the ISR even when its broker is gone, for nobody else is known to hold everything. If it comes
back with a log that is below what the controller has heard of (an old image of its disk, an
unsynced tail gone), it is doubtful: electing it would be clean by the books only.

When there is nobody like that, the partition has no leader until somebody decides that records are
lost: an administrator, the topic's `unclean.leader.election.enable`, or nobody but itself, where a
partition has one replica only. Then any active replica may lead (who is being added last, for it
may be all but empty), alone in the ISR, and the record says in which epoch that was (`lost_in`):
everyone else discards and copies anew.

What is known of the offsets after a loss? If the partition had no leader since the elected replica
registered, then the log it found is the log it has: all of it counts, and nothing above. Else its
log may have moved since. The high watermark starts from zero then, as all of it may be lost; the
leader's next heartbeat says how high it is. MTRO and MXRO stay as they are: an honest replica has
reached them, for they are the minimum over all that were assigned. One that had lost its disk has
not: then that heartbeat lowers them (`Ledger.hear`). One that was away while records were lost once
before may have relied on more: it proposes that when it leads (`Leader.start`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sexton.machines.compaction import NodeId, Progress, Removable, may_lead
from sexton.machines.controller_events import ReplicaState
from sexton.machines.metadata import NO_LEADER, PartitionRecord
from sexton.machines.reassignment import completed, origin_of

Active = Callable[[NodeId], bool]


def settle(
    old: PartitionRecord,
    draft: PartitionRecord,
    active: Active,
    *,
    unclean: bool,
    preferred: bool = False,
    found: Mapping[NodeId, ReplicaState] = MappingProxyType({}),
) -> PartitionRecord:
    """What becomes of a partition that is to change from `old` to `draft`.

    The draft says who holds the partition and who is in sync; the leader and both epochs follow
    from that. Nothing to change gives `old`. `found` are the logs of those who registered since
    there is no leader.
    """
    draft = completed(draft)
    leader = _clean_leader(draft, active, preferred)
    lost = False
    if leader == NO_LEADER and (unclean or len(draft.replicas) == 1):
        leader = _first(origin_of(draft) + draft.adding, active)
        lost = leader != NO_LEADER
    draft = replace(draft, leader=leader)
    if draft == old:
        return old
    moved = leader != old.leader or set(draft.replicas) != set(old.replicas)
    assert moved or not lost
    epoch = old.leader_epoch + 1 if moved else old.leader_epoch
    settled = replace(draft, leader_epoch=epoch, partition_epoch=old.partition_epoch + 1)
    return completed(_after_loss(settled, found.get(leader))) if lost else settled


def is_fit(partition: PartitionRecord, found: ReplicaState, *, independent: bool) -> bool:
    """May the last ISR member lead with the log it came back with?

    Where each replica cleans as it likes, nobody keeps account of how clean logs are.
    """
    progress = Progress(found.mcco, found.mxfo)
    relied_on = Removable() if independent else partition.removable
    return may_lead(found.log_end, progress, partition.high_watermark, relied_on)


def _clean_leader(draft: PartitionRecord, active: Active, preferred: bool) -> NodeId:
    if draft.doubtful:
        return NO_LEADER
    first = _first(draft.replicas, lambda node: node in draft.isr and active(node))
    stays = draft.leader in draft.isr and active(draft.leader)
    if stays and not (preferred and first == draft.replicas[0]):
        return draft.leader
    return first


def _first(nodes: tuple[NodeId, ...], fits: Active) -> NodeId:
    return next((node for node in nodes if fits(node)), NO_LEADER)


def _after_loss(settled: PartitionRecord, found: ReplicaState | None) -> PartitionRecord:
    lost = replace(
        settled, isr=(settled.leader,), lost_in=settled.leader_epoch, doubtful=False,
        high_watermark=0,
    )  # fmt: skip
    if found is None or found.assignment != settled.members[settled.leader]:
        return lost
    return replace(
        lost,
        high_watermark=found.log_end,
        mtro=min(settled.mtro, found.mcco, found.log_end),
        mxro=min(settled.mxro, found.mxfo, found.log_end),
    )
