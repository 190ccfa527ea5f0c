"""The audit's tasks on Spark: each replica of a partition is one job, on whatever core is free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.spark.tasks import TaskFailed, run_on_spark
from sexton.survey.tasks import Failed, FoldTask, Result, run_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRunner:
    """What `survey.runner.Runner` asks for."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def slots(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def run(self, tasks: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
        """A task that Spark could not run to its end is a replica that was not read."""
        lost: list[TaskFailed] = []
        yield from run_on_spark(self._spark, tasks, run_task, failed=lost.append, name="audit")
        for each in lost:
            yield each.number, Failed(f"Spark: {each.why}")
