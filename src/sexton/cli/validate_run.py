"""One validation as a command: where it runs, how far it is, and what is said when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.cli.durations import milliseconds
from sexton.cli.engines import Engine, started
from sexton.cli.output import Output
from sexton.cli.validate_request import Request
from sexton.cli.validate_show import Told, show, show_end
from sexton.cli.writers import Format
from sexton.report.audit_words import many

if TYPE_CHECKING:
    from sexton.survey.validating import TaskRunner, Validation
    from sexton.survey.validating_stream import StepRunner
    from sexton.survey.validating_tasks import Task


def run_validate(request: Request, chosen: Format) -> None:
    with Output("validate", chosen) as out:
        if request.checkpoint is None:
            show(_once(request, out), request, out)
        else:
            _step_by_step(request, request.checkpoint, out)


def _once(request: Request, out: Output) -> Validation:
    from sexton.survey.validating import validate

    with _tasks(request, out) as runner, Progress(out) as watcher:
        if request.table is None:
            return validate(request.asked(), runner, watcher)
        from sexton.survey.validating_table import validate_table

        return validate_table(
            request.asked(), runner, request.table, request.table_key, request.table_value, watcher
        )


def _step_by_step(request: Request, checkpoint: Path, out: Output) -> None:
    from sexton.survey.validating_state import held
    from sexton.survey.validating_stream import Following

    asked, told = request.asked(), Told(request, out)
    with held(checkpoint), _steps(request, out) as runner:
        following = Following(asked, checkpoint, runner)
        known = following.known
        if known:
            verb = "is" if len(known) == 1 else "are"
            kept = f"{many(len(known), 'finding')} {verb} kept"
            out.say(f"goes on with {checkpoint}, where {kept}")
        told.tell(known, following.validation())
        try:
            while True:
                with out.progress(f"reading {request.topic}"):
                    found = following.step()
                if found:
                    told.tell(found, following.validation())
                if found is None:
                    if not request.follow:
                        break
                    time.sleep(milliseconds(request.interval, "--interval") / 1000)
        except KeyboardInterrupt:
            if not request.follow:
                raise  # with --follow this is how it ends
    show_end(following.validation(), request, told, out)


# ── where it runs ──


@contextmanager
def _tasks(request: Request, out: Output) -> Iterator[TaskRunner]:
    from sexton.survey.validating_runner import LocalTasks

    if request.engine is Engine.local:
        yield LocalTasks()
        return
    from sexton.spark.validate_runner import SparkTasks

    with _spark(request, out) as spark:
        yield SparkTasks(spark)


@contextmanager
def _steps(request: Request, out: Output) -> Iterator[StepRunner]:
    from sexton.survey.validating_stream import LocalSteps

    if request.engine is Engine.local:
        yield LocalSteps()
        return
    from sexton.spark.validate_runner import SparkSteps

    with _spark(request, out) as spark:
        yield SparkSteps(spark)


@contextmanager
def _spark(request: Request, out: Output) -> Iterator[Any]:
    """A session, from the first task on: a topic that is not there need not wait for it."""
    from sexton.spark.session import find_spark, spark_session

    find_spark()
    with ExitStack() as stack:
        sessions: list[Any] = []

        def start() -> Any:
            return stack.enter_context(spark_session(request.master, app="sexton validate"))

        def session() -> Any:
            if not sessions:
                with out.progress("starting Spark"):
                    sessions.append(started(start))
            return sessions[0]

        yield session


class Progress:
    """A bar for each round, by the offsets that have been read."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._bar = ExitStack()
        self._advance: Callable[[int], None] = lambda _amount: None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def planned(self, topic: str, partitions: int) -> None:
        self._out.say(f"{topic}, {many(partitions, 'partition')}")

    def reads(self, what: str, tasks: Sequence[Task]) -> None:
        self._bar.close()
        bar = self._out.progress(what, sum(task.size for task in tasks))
        self._advance = self._bar.enter_context(bar)

    def has_read(self, task: Task) -> None:
        self._advance(task.size)
