"""Which messages have failed, and why: a line for each, but not for each of a storm.

    put aside      a warning when a message fails for the first time; not for each attempt after it
    dead letter    an error
    held           an error: its key waits until an operator decides

All of it is told when it is committed, and so once. When the other service is down, thousands a
second fail for one reason: of each kind and type of exception the first few of a second are told,
and the others are counted and told as a number.
"""

from __future__ import annotations

import logging
import time
from collections import Counter

from sexton.machines.retry_records import TaskName
from sexton.machines.retry_rounds import Commit, Failure, Item, Outcome
from sexton.machines.retry_task import Task

log = logging.getLogger("sexton.retry")

MOST = 5  # lines of a kind and a type of exception
PERIOD_S = 1.0
ASIDE, DEAD, HELD = "put aside", "a dead letter", "held"
_NO_REASON = Failure("no reason was given")

Kind = tuple[str, str]  # what became of it, and the type of the exception


class Telling:
    """For the one thread that commits rounds."""

    def __init__(self) -> None:
        self._since_s = 0.0
        self._counts: Counter[Kind] = Counter()  # since then

    def tell(self, task: Task, commit: Commit) -> None:
        self.tell_rest()
        for item in commit.redirected:
            if item.outcome is Outcome.RETRY:
                self._tell(task, item, ASIDE)
        for item in commit.dead:
            is_held = item.id in commit.changed  # else nothing of it waits any more
            self._tell(task, item, HELD if is_held else DEAD)

    def tell_rest(self, *, at_once: bool = False) -> None:
        """How many were left out, when their time is over."""
        if not self._counts:
            return
        now_s = time.monotonic()
        if now_s - self._since_s < PERIOD_S and not at_once:
            return
        counts, self._counts = self._counts, Counter()
        for (what, exception), count in counts.items():
            if count > MOST:
                about = {"count": count - MOST, "what": what, "exception": exception}
                log.log(_level(what), "and %d more: %s, %s", *about.values(), extra=about)

    def _tell(self, task: Task, item: Item, what: str) -> None:
        failure = item.failure or _NO_REASON
        if not self._counts:
            self._since_s = time.monotonic()
        kind = what, failure.exception or failure.reason
        self._counts[kind] += 1
        if self._counts[kind] <= MOST:
            _say(task.name, item, what, failure, task.settings.max_attempts)


def _say(name: TaskName, item: Item, what: str, failure: Failure, most: int) -> None:
    id_ = name.id_of(item.id).decode()
    tried = f"attempt {item.attempts} of {most}" if item.attempts else "never tried"
    about = {"id": id_, "attempts": item.attempts, "why": failure.reason}
    log.log(_level(what), "%s is %s, %s: %s", id_, what, tried, failure.reason, extra=about)


def _level(what: str) -> int:
    return logging.WARNING if what == ASIDE else logging.ERROR
