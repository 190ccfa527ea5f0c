"""Why may what is on a disk not be read on from? In words, for whoever finds it gone.

It belongs to another log, the log no longer holds the place where it ends, or the log may have
forgotten what happened to its keys since.
"""

from __future__ import annotations

from sexton.machines.stores_events import Bounds, Checkpoint, Lineage, Read, TaskConfig


def foreign(found: Lineage, wanted: Lineage) -> str:
    if found.cluster_id != wanted.cluster_id:
        return f"it is of the cluster {found.cluster_id}, this one is {wanted.cluster_id}"
    return "its changelog was deleted and made again since"


def cut(store: Checkpoint, bounds: Bounds) -> str | None:
    """None: the changelog still has its place."""
    if store.position > bounds.log_end:
        return f"it is at {store.position}, and the changelog ends at {bounds.log_end}"
    if store.position < bounds.log_start:
        return f"it is at {store.position}, and the changelog begins at {bounds.log_start} now"
    if bounds.parts_at is not None and bounds.parts_at < store.position:
        return (
            f"it is at {store.position}, and the changelog of its time ended at {bounds.parts_at}:"
            " there was an unclean election"
        )
    return None


def is_older(store: Checkpoint, read: Read) -> str | None:
    """Why what comes next cannot be: in one log epochs never fall. None: it can.

    Its leader had led before, and has more from then than was written since.
    """
    if not 0 <= read.first_epoch < store.leader_epoch:
        return None
    return (
        f"it is at {store.position}, and what the changelog has there is of epoch"
        f" {read.first_epoch}, and older: there was an unclean election"
    )


def too_old(store: Checkpoint, now_ms: int, config: TaskConfig) -> str:
    away_s = (now_ms - store.caught_up_ms) // 1000
    kept_s = config.delete_retention_ms // 1000
    when = f"was last complete {away_s} s ago" if store.caught_up_ms else "says a time to come"
    return (
        f"it {when}, and tombstones are kept for {kept_s} s:"
        " it may hold keys that were deleted since"
    )
