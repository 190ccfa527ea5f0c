"""One partition that the group has given to this instance, from its assignment to its end.

    assigned ──▶ starting (paused) ──▶ reaped ──▶ ready ──▶ ... ──▶ revoked
                    ▲                               │
                    └──── a transaction failed ─────┘    what memory believed is thrown away

A new `Owned` for each assignment, a new task for each start: nothing of the last one is taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any

from sexton.machines.retry_records import TaskName
from sexton.machines.retry_task import Task
from sexton.retry.epochs import Doubt, Epochs
from sexton.retry.metrics import Standing
from sexton.retry.payloads import PayloadCache
from sexton.retry.starting import StartedUp

FIRST_PAUSE_S, MOST_PAUSE_S = 0.05, 5.0  # before a start that follows a failure


class Owned:
    def __init__(self, name: TaskName) -> None:
        self.name = name
        self.task: Task | None = None  # None: starting
        self.starting: Future[StartedUp] | None = None
        self.started: Task | None = None  # and not yet put in its place
        self.cache = PayloadCache()
        self.tail_at = 0  # how far the retry topic was looked through for commands
        self.taken = 0  # the main topic up to here was taken into rounds, committed or not
        self.epochs = Epochs()  # of what was taken
        self.doubts: list[Doubt] = []  # to be asked before the last of it is handled
        self.is_sought_again = False  # since it had come back to before `taken`
        self.in_doubt = ""  # why it is not sure that the main topic has what was taken
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

    def has_started(self, found: StartedUp) -> None:
        self.started, self.tail_at, self.epochs = found.task, found.tail_from, Epochs(found.epoch)

    def ready(self, task: Task) -> None:
        self.task, self.started, self.taken = task, None, task.position
        self.is_sought_again, self.in_doubt, self.doubts = False, "", []
        self.barrier_s = monotonic() - self.since_s

    def take(self, messages: Sequence[Any]) -> None:
        """Into rounds."""
        self.doubts += self.epochs.take(messages, self.taken)
        self.taken = messages[-1].offset() + 1

    def take_doubts(self) -> list[Doubt]:
        taken, self.doubts = self.doubts, []
        return taken

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
