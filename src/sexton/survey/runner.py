"""Tasks side by side, in this process.

A runner takes tasks and gives back (number of the task, result) as they finish, in any order. This
one needs no Spark and no Java: threads are enough, since reading waits and folding runs without
Python's lock. `spark/` has another, for more than one machine can read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Protocol

from sexton.survey.tasks import FoldTask, Result, run_task


class Runner(Protocol):
    @property
    def slots(self) -> int:
        """How many tasks may run at once."""

    def run(self, tasks: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]: ...


@dataclass(frozen=True, slots=True)
class LocalRunner:
    slots: int = field(default_factory=lambda: os.cpu_count() or 1)

    def run(self, tasks: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
        if not tasks:
            return
        pool = ThreadPoolExecutor(self.slots)
        try:
            numbers = {pool.submit(run_task, task): number for number, task in enumerate(tasks)}
            for done in as_completed(numbers):
                yield numbers[done], done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
