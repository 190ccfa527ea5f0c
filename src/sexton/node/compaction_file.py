"""What a replica keeps on disk about coordinated compaction: one small file in its directory.

    compaction-offsets      one line of JSON, replaced as a whole

It says which assignment the log belongs to and carries the replica's own progress and the group's
minima across a restart. A log without the file has promised nothing to anybody.
"""

from __future__ import annotations

import json

from sexton.base.partitions import TopicPartition
from sexton.log.disk import Disk, put, replace
from sexton.machines.compaction import Follower, Persist, Progress, Removable

FILE = "compaction-offsets"


def keep(disk: Disk, partition: TopicPartition, assignment: int, what: Persist) -> None:
    path, packed = path_of(partition), _packed(assignment, what)
    if not disk.exists(path) or disk.read(path) != packed:
        replace(disk, path, packed)


def begin(disk: Disk, partition: TopicPartition, assignment: int) -> None:
    """For a new log, which syncs the file with its first records."""
    nothing = Persist(Progress(), Removable(), -1)
    put(disk, path_of(partition), _packed(assignment, nothing))


def path_of(partition: TopicPartition) -> str:
    return f"{partition}/{FILE}"


def _packed(assignment: int, what: Persist) -> bytes:
    kept = {
        "version": 0,
        "assignment": assignment,
        "began_in": what.began_in,
        "mcco": what.progress.mcco,
        "mxfo": what.progress.mxfo,
        "mtro": what.removable.mtro,
        "mxro": what.removable.mxro,
    }
    return json.dumps(kept).encode() + b"\n"


def load(disk: Disk, partition: TopicPartition, node: int, log_end: int) -> Follower:
    """What was kept; a damaged file is as good as none, and the replica starts empty.

    Recovery may have cut the log below what had been cleaned. What is copied again is as clean as
    the leader's log, and every leader's is clean up to the group's minima: more is not claimed.
    """
    path = path_of(partition)
    if not disk.exists(path):
        return Follower(node)
    try:
        kept = {name: int(value) for name, value in json.loads(disk.read(path)).items()}
        progress = Progress(
            min(kept["mcco"], max(log_end, kept["mtro"])),
            min(kept["mxfo"], max(log_end, kept["mxro"])),
        )
        removable = Removable(kept["mtro"], kept["mxro"])
        return Follower(node, progress, removable, kept["began_in"], kept["assignment"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return Follower(node)
