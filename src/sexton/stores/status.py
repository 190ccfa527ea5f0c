"""One task on one instance, as people and programs are shown it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sexton.stores.worker import Worker


@dataclass(frozen=True, slots=True)
class TaskStatus:
    task: str
    partition: int
    role: str  # what the group says: active, standby, none
    state: str  # what it is busy with: running, restoring, standby, stopped, none
    position: int  # in the changelog; all below it is in the local store
    input_position: int | None
    lag: int  # records behind; -1: not known
    restore: str | None  # how far, how fast, how long still
    stopped: str | None  # why


def status_of(worker: Worker) -> TaskStatus:
    return TaskStatus(
        worker.id.task,
        worker.id.partition,
        worker.machine.role.value,
        worker.state,
        *worker.on_disk,
        worker.lag,
        None if worker.restore is None else str(worker.restore),
        worker.stopped,
    )
