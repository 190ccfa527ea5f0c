"""One commit of one task: outputs, changelog, input position and offset, or nothing of it.

What comes out is one of five things, and the machine knows what each means:

    Committed            Kafka confirmed; the overlay is at hand to be written down
    Elsewhere            the changelog is longer than it was said to be, or shorter than it was:
                         nothing was committed
    Fenced("group")      the group has gone on without us: nothing was committed
    Fenced("producer")   somebody has a newer epoch: nothing was committed
    Unsure               everything else, whether or not the end was asked for

What would be refused again and again (a record that is too large, a topic that may not be written)
is raised, and stops the task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from sexton.base.errors import SextonError
from sexton.base.partitions import TopicPartition
from sexton.machines.stores_events import Commit, Committed, Elsewhere, Fenced, Unsure
from sexton.stores.fetching import now_ms
from sexton.stores.local import Local
from sexton.stores.producing import TaskProducer, is_fenced, is_hopeless, is_left_behind
from sexton.stores.surroundings import Surroundings

log = logging.getLogger("sexton.stores")


class NeverTaken(SextonError):
    """Kafka refuses what the task writes, and would refuse it again."""


class Committing:
    def __init__(
        self,
        name: str,
        producer: TaskProducer,
        input_at: TopicPartition,
        changelog_at: TopicPartition,
        around: Surroundings,
    ) -> None:
        self._name, self._producer, self._around = name, producer, around
        self._input_at, self._changelog_at = input_at, changelog_at
        self.last_s = 0.0  # when the last one was confirmed

    async def commit(
        self, effect: Commit, local: Local, generation_now: Callable[[], int]
    ) -> Committed | Elsewhere | Fenced | Unsure:
        began_s, asked_ms = time.monotonic(), now_ms()
        ending, generation = False, effect.generation
        around, at = self._around, self._changelog_at
        try:
            batches = await around.thread(local.batches, at, effect.next_input, asked_ms)
            landed = (await self._producer.send(batches))[at]
            if not effect.lands(landed.start):
                return await self._went_astray(effect.lands_at, landed.start)
            # A newer generation that left the task with us counts as well.
            generation = generation_now()
            member = replace(around.membership(), generation=generation)
            await self._producer.send_offset(member, self._input_at, effect.next_input)
            ending = True
            await self._producer.end(committed=True)
        except SextonError as error:
            return await self._failed(error, ending, generation)
        self.last_s = time.monotonic()
        around.numbers.committed(self.last_s - began_s)
        local.committed()
        return Committed(asked_ms, landed.stop, await self._leader_epoch())

    async def _went_astray(self, wanted: int, offset: int) -> Elsewhere:
        why = f"the store has the changelog up to {wanted}, and the next record is at {offset}"
        about = {"task": self._name, "why": why}
        log.warning("%s: commit given up: %s", *about.values(), extra=about)
        await self._producer.abort()
        return Elsewhere(offset)

    async def _failed(self, error: SextonError, ending: bool, generation: int) -> Fenced | Unsure:
        about = {"task": self._name, "why": str(error)}
        if is_left_behind(error):
            log.info("%s: commit refused: the group has gone on: %s", *about.values(), extra=about)
            await self._producer.abort()
            if generation == self._around.membership().generation:
                # The group may think that all is well, if a coordinator said so that was replaced:
                # then it would never come to say what comes next.
                self._around.left_behind()
            return Fenced("group", generation)
        if is_hopeless(error):
            await self._producer.abort()
            raise NeverTaken(error.subject, error.why, error.hint)
        if is_fenced(error):
            log.info("%s: commit refused: there is a newer owner: %s", *about.values(), extra=about)
            return Fenced("producer")
        said = "nobody knows whether it was committed" if ending else "commit failed"
        text = "%s: %s: the task starts again: %s"
        log.warning(text, self._name, said, error, extra=about)
        return Unsure()

    async def _leader_epoch(self) -> int:
        """An epoch that is not older than that of our records; -1: nobody says."""
        try:
            return (await self._around.client.place(self._changelog_at)).leader_epoch
        except SextonError:
            return -1
