"""A validation's tasks on Spark: each partition of the topic is one job, on whatever core is free.

`session` gives the Spark session when the first task is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sexton.spark.tasks import TaskFailed, run_on_spark
from sexton.survey.validating_stream import StepResult, StepTask, carry_out_step
from sexton.survey.validating_tasks import Failed, Task, run_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = Callable[[], "SparkSession"]


class SparkTasks:
    """What `survey.validating.TaskRunner` asks for."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def slots(self) -> int:
        return int(self._session().sparkContext.defaultParallelism)

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """A task that Spark could not run to its end is a partition that was not read."""
        if not tasks:
            return
        lost: list[TaskFailed] = []
        spark = self._session()
        yield from run_on_spark(spark, tasks, run_task, failed=lost.append, name="validate")
        for each in lost:
            yield each.number, Failed(f"Spark: {each.why}")


class SparkSteps:
    """The steps of a stream. The checkpoint has to be a directory that every executor reaches."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def slots(self) -> int:
        return int(self._session().sparkContext.defaultParallelism)

    def run(self, tasks: Sequence[StepTask]) -> Iterator[tuple[int, StepResult]]:
        if not tasks:
            return
        lost: list[TaskFailed] = []
        spark = self._session()
        yield from run_on_spark(spark, tasks, run_step, failed=lost.append, name="validate")
        for each in lost:
            yield each.number, Failed(f"Spark: {each.why}")


def run_step(task: StepTask) -> StepResult:
    return asyncio.run(carry_out_step(task))
