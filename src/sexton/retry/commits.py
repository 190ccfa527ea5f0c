"""Commits that are under way, one at a time, and what their tasks are told.

    submit ──▶ (committer's thread) ──▶ settle: confirmed, or failed and started up again

Whoever needs the result waits for it in `settle`; until then the main loop may do what does not
depend on it. A commit that does not come back at all is given up with its thread and its producer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any

from sexton.machines.retry_task import Ended, Task
from sexton.retry.membership import Membership
from sexton.retry.metrics import Counters
from sexton.retry.owned import Owned
from sexton.retry.producing import CommitFailed, Committer, Limits, Receipt
from sexton.retry.records_out import Part
from sexton.retry.refusals import Refusals
from sexton.retry.rounds import Entry
from sexton.retry.telling import Telling

log = logging.getLogger("sexton.retry")
SENT_S = 1.0  # then its queue is full, and brokers are slow
Wait = Callable[[Callable[[float], bool]], None]


class Commits:
    def __init__(
        self,
        committer: Committer,
        limits: Limits,
        member: Callable[[], Membership],
        offsets: Callable[[Sequence[Part]], None] | None,
        counters: Counters,
        refusals: Refusals,
        confirmed: Callable[[Owned, Task], None],
        failed: Callable[[Owned, Task, Ended, str], None],
        denied: Callable[[int], None],
        telling: Telling,
    ) -> None:
        self._committer = committer
        self._limits = limits
        self._member = member
        self._offsets = offsets  # None: they are in the transaction
        self._counters = counters
        self._refusals = refusals
        self._confirmed = confirmed
        self._failed = failed
        self._denied = denied  # raises, if an ACL is missing
        self._telling = telling
        self._under_way: list[tuple[list[Entry], Future[Receipt]]] = []  # one at the most

    @property
    def is_under_way(self) -> bool:
        return bool(self._under_way)

    def submit(self, entries: list[Entry]) -> bool:
        """Whether the next round has to wait for it: what it changes decides what may run."""
        assert not self._under_way
        parts = [part for _, _, part in entries]
        sent = threading.Event()
        future = self._committer.submit(parts, self._member(), sent.set)
        self._under_way.append((entries, future))
        # Two threads of Python take turns of milliseconds: the records go out first, and what comes
        # next is handled while brokers are waited for.
        sent.wait(SENT_S)
        return any(part.commit.changes for _, _, part in entries)

    def settle(self, wait: Wait) -> None:
        """Waits for the one that is under way; harmless if there is none, or a second time."""
        if not self._under_way:
            return
        entries, future = self._under_way[0]
        end = time.monotonic() + 2 * self._limits.commit_s
        wait(lambda s: done(future)(s) or time.monotonic() > end)
        if not self._under_way:
            return  # a callback did it meanwhile
        self._under_way.clear()
        try:
            receipt = self._result(future)
            if self._offsets is not None:
                self._offsets([part for _, _, part in entries])
        except CommitFailed as error:
            self._counters.count("commits", ended=error.how)
            self._refusals.note(error.refusals)
            for owned, task, _ in entries:
                self._failed(owned, task, error.how, error.why)
            if not error.refusals:
                self._denied(error.code)
        else:
            self._counters.count("commits", ended="committed")
            for owned, task, part in entries:
                self._apply(owned, task, part, receipt.get(owned.partition, {}))

    def _result(self, future: Future[Receipt]) -> Receipt:
        if not future.done():
            self._committer.leave_behind()
            raise CommitFailed("unknown", "librdkafka does not come back")
        return future.result()

    def _apply(self, owned: Owned, task: Task, part: Part, offsets: dict[int, int]) -> None:
        commit = part.commit
        owned.cache.forget(commit.settled)
        if part.of is not None:
            for item in commit.redirected:
                owned.cache.put(item.id, part.of.payload(item))
        else:
            self._counters.count("reaped", len(commit.lock_tombstones))
        task.confirmed(offsets)
        if commit.redirected and not offsets:
            task.restart = "others have written to the retry topic in between"
        owned.failures = 0
        self._counters.count("redirected", len(commit.redirected))
        self._counters.count("dead", len(commit.dead))
        if commit.redirected or commit.dead:
            self._telling.tell(task, commit)
        self._confirmed(owned, task)


def done(future: Future[Any]) -> Callable[[float], bool]:
    def is_done(timeout_s: float) -> bool:
        try:
            future.exception(timeout_s)
        except NotYet:
            return False
        except CancelledError:
            return True
        return True

    return is_done
