"""Rounds from what was polled: begun, handled, finished.

    polled ──▶ calm: nothing is pending for this task    ──▶ handled at once, until one fails
           └──▶ a round of the machine                   ──▶ payloads read back, lanes handled

A calm round needs nothing of what the one before it writes: not even that it is committed. So it is
handled while that commit is under way. If the commit then fails, both are done again, in order; of
what the second one did nothing has been written. The first failure ends the calm: the message that
failed and all that were polled after it become a round of the machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

from sexton.base.errors import SextonError
from sexton.machines.retry_rounds import Outcome
from sexton.machines.retry_task import Task, another_message
from sexton.retry.handlers import Calm, Handling, RoundOfTask
from sexton.retry.messages import Payload, Place, payload_of
from sexton.retry.metrics import Counters
from sexton.retry.owned import Owned
from sexton.retry.pool import Execution
from sexton.retry.producing import offset_for
from sexton.retry.records_out import Part
from sexton.retry.tasks_io import TasksIo

log = logging.getLogger("sexton.retry")
ROUND_S = 1.0  # so much work of slow handlers, and not all that was polled, is redone after a crash

Entry = tuple[Owned, Task, Part]
Begun = tuple[Owned, Task, RoundOfTask]
CalmOne = tuple[Owned, Task, Calm]


class Running:
    """What is being handled."""

    def __init__(self, rounds: list[Begun], calm: list[CalmOne], execution: Execution) -> None:
        self.rounds = rounds
        self.calm = calm
        self.execution = execution

    @property
    def is_cut(self) -> bool:
        return self.execution.plan.cut


class Rounds:
    def __init__(self, handling: Handling, io: TasksIo, counters: Counters) -> None:
        self._handling = handling
        self._io = io
        self._counters = counters
        self.generation = -1

    # ── beginning ──

    def calm(self, owned: Iterable[Owned], polled: dict[int, list[Any]]) -> list[CalmOne]:
        """Takes from `polled` what can be handled one after the other, whatever its keys are."""
        now_ms, until_s, found = now(), time.monotonic() + ROUND_S, list[CalmOne]()
        for each in owned:
            task, messages = each.task, polled.get(each.partition)
            if task is None or not messages or len(task.pending) or _wakes(task, now_ms):
                continue
            del polled[each.partition]
            found.append((each, task, Calm(self._place(task), messages, until_s)))
        return found

    def is_any_due(self, owned: Iterable[Owned]) -> bool:
        """Retries and commands do not wait until another partition has nothing to do."""
        now_ms = now()
        return any(each.task is not None and _due(each.task, now_ms) for each in owned)

    def begin(self, owned: Iterable[Owned], polled: dict[int, list[Any]]) -> list[Begun]:
        now_ms, begun = now(), list[Begun]()
        for each in owned:
            task, messages = each.task, polled.get(each.partition, [])
            if task is not None and (messages or _due(task, now_ms)):
                each.cache.shrink()
                begun.append((each, task, self._begun(each, task, messages)))
        return begun

    def after_calm(self, owned: Owned, task: Task, calm: Calm, *, all_of_it: bool) -> RoundOfTask:
        """What failed, and all that was polled after it or nothing of it."""
        end = len(calm.messages) if all_of_it else calm.done + 1
        of = self._begun(owned, task, calm.messages[calm.done : end])
        of.outputs = calm.outputs
        item = of.round.work[0]
        assert item.index == 0 and calm.failed is not None, "nothing was pending before it"
        if item.outcome is not None:
            pass  # its key cannot be told, and that was noted
        elif calm.poison:
            self._handling.note_poison(of, item, calm.failed, calm.poison)
        else:
            self._handling.note_failure(of, item, calm.failed)
        return of

    def _begun(self, owned: Owned, task: Task, messages: Any) -> RoundOfTask:
        offsets = [message.offset() for message in messages]
        place = self._place(task)
        keys, unknown = self._handling.keys_of(messages, place)
        begins = task.begin(now(), offsets, keys, None, owned.cache)
        read = owned.cache.of([*(item.id for item in begins.retries), *begins.again])
        of = RoundOfTask(begins, place, messages, read)
        if unknown:
            self._handling.note_unknown(of, unknown)
        return of

    def _place(self, task: Task) -> Place:
        headers_at = partial(self._io.headers_at, task.name)
        return Place(task.name.topic, task.name.partition, self.generation, headers_at)

    # ── messages that are read back ──

    def missing(self, begun: Iterable[Begun]) -> list[tuple[Begun, Future[dict[int, Payload]]]]:
        found = []
        for each in begun:
            _, task, of = each
            wanted = {i.id: i.retry_offset for i in of.round.retries if of.read[i.id] is None}
            wanted |= {at: task.pending.held[at].retry_offset for at in of.round.again}
            if wanted:
                found.append((each, self._io.payloads(task.name, wanted)))
        return found

    def is_complete(self, begun: Begun, future: Future[dict[int, Payload]]) -> bool:
        """False: a waiting message cannot be found."""
        _, task, of = begun
        try:
            of.read.update(future.result())
        except SextonError as error:
            about = {"task": str(task.name), "why": str(error)}
            log.warning("%s: messages cannot be read back: %s", *about.values(), extra=about)
        return all(payload is not None for payload in of.read.values())

    def checked(self, begun: list[Begun]) -> list[Begun]:
        """ConfigError if one waits, and main has another message in its place by now."""
        for _, task, of in begun:
            for message, row in of.round.again.items():
                if of.read[message] != payload_of(of.polled[row], of.place.headers_at):
                    why = "waits, and the main topic has another message at its offset now"
                    raise another_message(task.name, message, why)
        return begun

    # ── the end ──

    def entries(self, running: Running) -> list[Entry]:
        """What is to be committed; a task for which nothing has happened is told so."""
        found: list[Entry] = []
        for owned, task, of in running.rounds:
            if not owned.gone and owned.task is task:
                found += self._entry(owned, task, of)
        for owned, task, calm in running.calm:
            if owned.gone or owned.task is not task:
                continue  # it is somebody else's now
            if calm.failed is not None:
                of = self.after_calm(owned, task, calm, all_of_it=False)
            else:
                last = calm.messages[calm.done - 1].offset() + 1 if calm.done else None
                of = RoundOfTask(task.begin(now(), (), (), last), calm.place, (), {})
                of.outputs = calm.outputs
            self._counters.count("attempts", calm.done, outcome="done")
            found += self._entry(owned, task, of)
        return found

    def _entry(self, owned: Owned, task: Task, of: RoundOfTask) -> list[Entry]:
        before = task.position
        commit = task.finish(of.round, now())
        self._count(of)
        if commit.changes or of.outputs or commit.position != before:
            return [(owned, task, part_of(owned, task, commit, of))]
        task.confirmed()
        return []

    def _count(self, of: RoundOfTask) -> None:
        ended = [item.outcome for item in of.round.work]
        for outcome in Outcome:
            self._counters.count("attempts", ended.count(outcome), outcome=outcome.value)


def part_of(owned: Owned, task: Task, commit: Any, of: RoundOfTask | None) -> Part:
    epoch = owned.epochs.before(commit.position)
    topic, partition = task.name.topic, task.name.partition
    offset = offset_for(topic, partition, commit.position, commit.metadata, epoch)
    return Part(task.name, commit, of, offset)


def _wakes(task: Task, now_ms: int) -> bool:
    return task.wake_at_ms(now_ms) is not None


def _due(task: Task, now_ms: int) -> bool:
    wake_ms = task.wake_at_ms(now_ms)
    return wake_ms is not None and wake_ms <= now_ms


def now() -> int:
    return time.time_ns() // 1_000_000
