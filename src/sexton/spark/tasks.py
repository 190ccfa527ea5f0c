"""Our own work on Spark: a few long tasks, each a small object in and a small object out.

    tasks ──▶ one job each ──▶ executors, all cores busy ──▶ results, as they come

A stage with all tasks in it would give its results when the last one is done, and one failure would
end the others. So each task is a job of its own, started from a thread; Spark's scheduler fills the
cores with them in the order of the list. That costs some ten milliseconds a task, which is nothing
for a task that reads a replica.

A task must be a function of its argument and change nothing: Spark runs it again when an executor
is lost, and may run it twice at once. An exception in `run` is not retried; it is told when it
happens (`failed`), or raised with all others when the rest is done (`TasksFailed`), so that nobody
takes some results for all.
"""

from __future__ import annotations

import gc
import pickle
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from sexton import __version__
from sexton.base.errors import Missing, PeerError, SextonError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

MOST_JOBS = 64  # waiting with Spark at any time: the cores of a large cluster are kept busy
_NUMBERS = count(1)
_CANCEL_S = 0.1  # from one word to the next that jobs are not wanted


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """What became of a task instead of a result."""

    number: int
    why: str  # one line
    trace: str  # where it happened, on the executor


class TasksFailed(SextonError):
    """Some tasks have no result; those of the others have been given."""

    def __init__(self, failures: Sequence[TaskFailed], of: int) -> None:
        first = failures[0]
        why = f"{len(failures)} of {of} failed; task {first.number}: {first.why}"
        super().__init__("Spark", why)
        self.failures = tuple(failures)


def run_on_spark(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], R],
    *,
    failed: Callable[[TaskFailed], None] | None = None,
    name: str = "sexton",
) -> Iterator[tuple[int, R]]:
    """(number of the task, what `run` made of it), as they finish.

    `run` and the tasks are pickled; executors need the same sexton. Whoever stops early (closes
    this iterator) has Spark cancel the rest.
    """
    jobs = _Jobs(spark, tasks, run, f"{name}-{next(_NUMBERS)}")
    failures: list[TaskFailed] = []
    try:
        for number, answer in jobs.answers():
            if not isinstance(answer, TaskFailed):
                yield number, answer
            elif failed is not None:
                failed(answer)
            else:
                failures.append(answer)
    finally:
        jobs.cancel()
    if failures:
        raise TasksFailed(sorted(failures, key=lambda each: each.number), len(tasks))


class _Jobs:
    """The threads that hand tasks to Spark and wait for them."""

    def __init__(
        self, spark: SparkSession, tasks: Sequence[Any], run: Callable[[Any], Any], tag: str
    ) -> None:
        self._context = spark.sparkContext
        self._tasks = tasks
        self._run = run
        self._tag = tag
        self._left: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._stopped = False
        self._threads: list[threading.Thread] = []

    def answers(self) -> Iterator[tuple[int, Any]]:
        for number in range(len(self._tasks)):
            self._left.put(number)
        for _ in range(min(len(self._tasks), MOST_JOBS)):
            thread = threading.Thread(target=self._work, name="sexton-spark-job", daemon=True)
            self._threads.append(thread)
            thread.start()
        for _ in range(len(self._tasks)):
            number, answer = self._done.get()
            if isinstance(answer, BaseException):
                raise answer
            yield number, answer

    def cancel(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        for thread in self._threads:
            # Again and again: a thread may just be on its way to Spark with a job, which no earlier
            # word has met, and would wait for its end.
            while thread.is_alive():
                self._context.cancelJobsWithTag(self._tag)
                thread.join(_CANCEL_S)

    def _work(self) -> None:
        self._context.addJobTag(self._tag)
        while not self._stopped:
            try:
                number = self._left.get_nowait()
            except queue.Empty:
                return
            try:
                answer = self._one(number)
            except BaseException as error:  # noqa: BLE001  raised where somebody can see it
                answer = error
            self._done.put((number, answer))

    def _one(self, number: int) -> Any:
        self._context.setJobDescription(f"{self._tag} task {number}")
        work = pickle.dumps((__version__, self._run, self._tasks[number]))
        try:
            told = self._context.parallelize([work], 1).map(_run_pickled).collect()[0]
        except Exception as error:  # noqa: BLE001  Spark and py4j have many
            return self._lost(number, error)
        worked, answer = pickle.loads(told)
        return answer if worked else TaskFailed(number, *answer)

    def _lost(self, number: int, error: Exception) -> Any:
        """The task never came to run, or its executors died again and again."""
        text = str(error)
        if "No module named 'sexton" in text:
            hint = (
                "install it there, in the Python that PYSPARK_PYTHON or spark.pyspark.python names"
            )
            return Missing("sexton", "is not installed on the executors", hint)
        lines = [line for line in text.splitlines() if line.strip()]
        return TaskFailed(number, lines[0] if lines else type(error).__name__, text)


@cache
def settle() -> None:
    """Once for each worker: Spark collects garbage after every task, and goes through all of it.

    What the first task has imported stays anyway; left out, a collection takes 1 ms and not 37.
    """
    gc.freeze()


def _run_pickled(work: bytes) -> bytes:
    """On an executor: one task, its result or what went wrong."""
    version, run, task = pickle.loads(work)
    try:
        if version != __version__:
            why = f"has sexton {__version__}, the driver {version}"
            raise PeerError("an executor", why, "install the same everywhere")
        answer = pickle.dumps((True, run(task)))
        settle()
        return answer
    except Exception as error:  # noqa: BLE001  whatever it is, the driver is told
        why = f"{type(error).__name__}: {error}"
        return pickle.dumps((False, (why, traceback.format_exc())))
