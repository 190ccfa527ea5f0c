"""Calls of `process`, in a thread that nobody can stop: but one can see how long it takes.

What counts is the time at one record. A batch of many records may take as long as it likes, as long
as it gets on. One whose work is for nothing by now is cut: the record at hand is the last.
"""

from __future__ import annotations

import threading
import time

from sexton.stores.batches import Outputs
from sexton.stores.local import Local
from sexton.stores.rows import Rows
from sexton.stores.surroundings import Surroundings
from sexton.stores.view import Store


class Calling:
    """There is one call at a time, of a batch of records."""

    def __init__(self, local: Local, around: Surroundings) -> None:
        self._local, self._around = local, around
        self._store: Store | None = None  # of the call that is under way
        self._seen, self._since_s = -1, 0.0
        self._cut = threading.Event()

    async def process(self, rows: Rows, store: Store, outputs: Outputs) -> None:
        """Returns when all of it is processed; a batch that was cut raises `Cut`."""
        self._cut.clear()  # here, not in the thread: it may be cut before it has begun
        await self._around.thread(self._process, rows, store, outputs)

    def cut(self) -> None:
        """No further record, if a call is under way; what it did so far is to be dropped."""
        self._cut.set()

    def _process(self, rows: Rows, store: Store, outputs: Outputs) -> None:
        self._seen, self._since_s = store.offset, time.monotonic()
        self._store = store
        try:
            self._local.process(rows, store, outputs, self._cut)
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                raise
            # Whoever waits for a thread is not told of a StopIteration (Python 3.11), takes a
            # CancelledError for his own, and lets others pass that are no `Exception`: the task
            # would stand still for ever, and nobody would hear why.
            name = type(error).__name__
            raise RuntimeError(f"process() raised {name}: {error}") from error
        finally:
            self._store = None

    @property
    def at_input(self) -> int:
        """The record that it is at; -1: none."""
        return -1 if self._store is None else self._store.offset

    def busy_s(self) -> float:
        """How long it has been at the same record, for one who asks every now and then."""
        if self._store is None:
            return 0.0
        offset = self._store.offset
        if offset != self._seen:
            self._seen, self._since_s = offset, time.monotonic()
        return time.monotonic() - self._since_s
