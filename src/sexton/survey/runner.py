"""Tasks side by side, in this process.

A runner takes tasks and gives back (number of the task, result) as they finish, in any order. This
one needs no Spark and no Java: threads are enough, since reading waits and folding runs without
Python's lock. `spark/` has another, for more than one machine can read.

Whoever stops asking for results (Ctrl-C does) does not wait for reads that may take hours: tasks
under way are cancelled, each in the event loop of its thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from sexton.survey.tasks import FoldTask, Result, carry_out

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[T], Coroutine[Any, Any, R]]


class Runner(Protocol):
    @property
    def slots(self) -> int:
        """How many tasks may run at once."""

    def run(self, tasks: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]: ...


@dataclass(frozen=True, slots=True)
class LocalRunner:
    slots: int = field(default_factory=lambda: os.cpu_count() or 1)

    def run(self, tasks: Sequence[FoldTask]) -> Generator[tuple[int, Result], None, None]:
        return side_by_side(tasks, carry_out, self.slots)


def side_by_side(
    tasks: Sequence[T], work: Work[T, R], slots: int
) -> Generator[tuple[int, R], None, None]:
    """(number of a task, what `work` made of it), as they finish."""
    if not tasks:
        return
    pool, under_way = ThreadPoolExecutor(slots), _UnderWay(work)
    try:
        numbers = {pool.submit(under_way.run, task): number for number, task in enumerate(tasks)}
        for done in as_completed(numbers):
            yield numbers[done], done.result()
    finally:
        under_way.stop()
        pool.shutdown(wait=True, cancel_futures=True)


class _UnderWay(Generic[T, R]):
    """Tasks that run in threads, and can be stopped from another one."""

    def __init__(self, work: Work[T, R]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._loops: dict[asyncio.Task[R], asyncio.AbstractEventLoop] = {}
        self._stopped = False

    def run(self, task: T) -> R:
        return asyncio.run(self._run(task))

    async def _run(self, task: T) -> R:
        work = asyncio.create_task(self._work(task))
        with self._lock:
            self._loops[work] = asyncio.get_running_loop()
            if self._stopped:
                work.cancel()
        try:
            return await work
        finally:
            with self._lock:
                del self._loops[work]

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for work, loop in self._loops.items():
                loop.call_soon_threadsafe(work.cancel)
