"""One partition that the group has given to this instance, from its assignment to its end.

    assigned ──▶ starting (paused) ──▶ reaped ──▶ ready ──▶ ... ──▶ revoked
                    ▲                               │
                    └──── a transaction failed ─────┘    what memory believed is thrown away

A new `Owned` for each assignment, a new task for each start: nothing of the last one is taken over.
"""

from __future__ import annotations

from concurrent.futures import Future
from time import monotonic

from sexton.machines.retry_records import TaskName
from sexton.machines.retry_task import Task
from sexton.retry.metrics import Standing
from sexton.retry.payloads import PayloadCache

FIRST_PAUSE_S, MOST_PAUSE_S = 0.05, 5.0  # before a start that follows a failure


class Owned:
    def __init__(self, name: TaskName) -> None:
        self.name = name
        self.task: Task | None = None  # None: starting
        self.starting: Future[tuple[Task, int]] | None = None
        self.started: Task | None = None  # and not yet put in its place
        self.cache = PayloadCache()
        self.tail_at = 0  # how far the retry topic was looked through for commands
        self.taken = 0  # the main topic up to here was taken into rounds, committed or not
        self.is_sought_again = False  # since it had come back to before that
        self.went_back = False  # and did so once more: has the main topic what was taken?
        self.gone = False  # the group has taken it away
        self.is_paused = True
        self.since_s = monotonic()
        self.barrier_s = 0.0
        self.failures = 0

    @property
    def partition(self) -> int:
        return self.name.partition

    def restart(self) -> float:
        """Forgets everything; how long to wait before the next start."""
        self.task = self.started = None
        self.cache = PayloadCache()
        self.since_s = monotonic()
        self.failures += 1
        return min(FIRST_PAUSE_S * (1 << min(self.failures - 1, 16)), MOST_PAUSE_S)

    def ready(self, task: Task) -> None:
        self.task, self.started, self.taken = task, None, task.position
        self.is_sought_again = self.went_back = False
        self.barrier_s = monotonic() - self.since_s

    def leave(self) -> None:
        self.gone = True
        self.task = self.started = None
        if self.starting is not None:
            self.starting.cancel()

    def standing(self, now_ms: int, handling_s: float = 0.0) -> Standing:
        task = self.task
        if task is None:
            return Standing(self.partition, ready=False, barrier_s=monotonic() - self.since_s)
        held = list(task.pending.held.values())  # at once: the main loop goes on
        oldest_ms = task.pending.oldest_since_ms()
        return Standing(
            self.partition,
            ready=True,
            paused=task.paused,
            locked_keys=len(task.pending.by_key),
            depth=len(held),
            held=sum(each.dead for each in held),
            oldest_s=0.0 if oldest_ms is None else max(0, now_ms - oldest_ms) / 1000,
            barrier_s=self.barrier_s,
            position=task.position,
            handling_s=handling_s,
        )
