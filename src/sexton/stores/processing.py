"""Inputs through `process`, each once and in order, until it is time to commit.

    fetcher ──rows──▶ process, in a thread ──▶ the overlay
                             └─▶ machine: Processed, up to here

It is time when the interval is over or the overlay is large, and something was processed; while
nothing comes, now and then, so that the machine sees the clock. Rows say which offsets they cover,
also those that were compacted away or are markers: so a position is never guessed, and what begins
anywhere else than where the last rows ended is a mistake.

After an unclean election other records may stand below a position, and whoever reads on from it
has never seen them. So a leader that is new, since the last commit or the last rows, is asked where
its log parts from that of the epoch before. If it had led before and has more from then, it names
its own end; but what comes next is then of an earlier epoch than what was processed, and in one log
epochs never fall.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sexton.base.errors import SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.epochs import parts_at
from sexton.client.retrying import Patience
from sexton.machines.stores import Task
from sexton.machines.stores_events import Processed
from sexton.machines.stores_phases import Running
from sexton.stores import changelog as changelogs
from sexton.stores.calling import Calling
from sexton.stores.fetching import Reader
from sexton.stores.local import Local
from sexton.stores.rows import Rows
from sexton.stores.surroundings import Surroundings

_PATIENCE = Patience(timeout_ms=30_000, backoff_ms=20)
_QUIET_S = 0.5  # between two looks at the clock while there is no input
_HINT = "reset the group's offsets and take a new application id, if they may be skipped"


class InputGone(SextonError):
    """Inputs were deleted before they were processed; to skip them is nobody's right but yours."""

    def __init__(self, at: TopicPartition, why: str) -> None:
        super().__init__(str(at), why, _HINT)


class Processing:
    """Of one task on one instance."""

    def __init__(
        self, at: TopicPartition, task: Task, local: Local, calling: Calling, around: Surroundings
    ) -> None:
        self._at, self._machine, self._around = at, task, around
        self._local, self._calling = local, calling
        self._reached = -1  # the input up to here is in the overlay, or behind it
        self.lag = -1

    @property
    def is_dirty(self) -> bool:
        """Is something processed that is not committed?"""
        phase = self._machine.phase
        return isinstance(phase, Running) and phase.next_input != self._machine.input_position

    async def until_due(self, last_s: float, goes_on: Callable[[], bool]) -> None:
        """Until a commit is due, the last one having ended at `last_s`, or it is to stop."""
        reader = await self._reader()
        due_s = last_s + self._around.config.commit_interval_ms / 1000
        quiet_s = time.monotonic() + _QUIET_S
        while goes_on():
            until_s = due_s if self.is_dirty else quiet_s
            rows = await reader.take(max(until_s - time.monotonic(), 0.001))
            if rows is not None:  # they may be none: then the leader says that it has no more
                await self._process(rows)
            now_s = time.monotonic()
            if self.is_dirty and (now_s >= due_s or self._local.is_large):
                break
            if not self.is_dirty and now_s >= quiet_s:
                break

    def drop(self) -> None:
        """Nobody reads the input for this task any more, until it is begun again."""
        self._around.fetcher.forget(self._at)

    async def _reader(self) -> Reader:
        phase = self._machine.phase
        assert isinstance(phase, Running)
        next_input = phase.next_input
        if next_input is None:
            bounds = await changelogs.bounds(self._around.client, self._at)
            next_input = bounds.log_start
        reader = self._around.fetcher.reader(self._at)
        if reader is None or self._reached != next_input:
            await self._must_have(next_input, self._local.input_epoch)
            self._reached = next_input
            reader = self._around.fetcher.read(self._at, next_input)
        return reader

    async def _must_have(self, reached: int, leader_epoch: int) -> None:
        """Does who leads in that epoch, or after it, have the inputs that were processed?"""
        epoch = self._local.input_epoch
        if epoch < 0:
            return
        client = self._around.client
        ends = await parts_at(client, self._at, epoch, leader_epoch, _PATIENCE)
        if ends is not None and ends < reached:
            raise _cut(self._at, reached, f"its leader's log parts from that at {ends}")

    async def _process(self, rows: Rows) -> None:
        # A stretch that begins elsewhere would be somebody else's, or one twice.
        assert rows.start == self._reached, (rows.start, self._reached)
        if 0 <= rows.first_epoch < self._local.input_epoch:
            older = f"what its leader has there is of epoch {rows.first_epoch}, and older"
            raise _cut(self._at, rows.start, older)
        if rows.leader_epoch > self._local.input_epoch:
            await self._must_have(rows.start, rows.leader_epoch)
        self.lag = max(0, rows.high_watermark - rows.next_offset)
        if len(rows):
            await self._calling.process(rows, self._local.store, self._local.outputs)
            self._around.numbers.processed += len(rows)
        if rows.next_offset > rows.start:
            self._reached = rows.next_offset
            self._local.input_epoch = max(self._local.input_epoch, rows.leader_epoch)
            self._machine.handle(Processed(rows.next_offset))


def _cut(at: TopicPartition, reached: int, how: str) -> InputGone:
    return InputGone(
        at,
        f"it was processed up to {reached}, and {how}:"
        " there was an unclean election, and other records may have come there since",
    )
