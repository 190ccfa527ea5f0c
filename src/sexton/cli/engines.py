"""Where partitions are read: on Spark, or in this process. `sexton audit` and `validate` ask."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sexton.base.errors import ConfigError, Missing
from sexton.base.java import java_path

if TYPE_CHECKING:
    import logging

Started = TypeVar("Started")
PY4J_LOGS = (None, "py4j.clientserver", "py4j.java_gateway")  # None: the root
THIS_MACHINE = "local[*]"  # Spark's master if none is named


class Engine(StrEnum):
    spark = "spark"
    local = "local"


EngineOption = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        help="Where partitions are read: on Spark (needs sexton[spark] and Java), or local, in "
        "this process. Default: spark if both are installed.",
    ),
]
MasterOption = Annotated[str, typer.Option("--master", metavar="URL", help="The Spark master.")]


def engine_for(chosen: Engine | None, master: str) -> Engine:
    """A master that is named is meant to be used, whatever is installed here."""
    if master != THIS_MACHINE:
        if chosen is Engine.local:
            hint = "leave out one of them"
            raise ConfigError("--master", "needs Spark, which --engine local does not use", hint)
        return Engine.spark
    if chosen is not None:
        return chosen
    return Engine.spark if _can_start_spark() else Engine.local


def _can_start_spark() -> bool:
    """PySpark is often there as a part of something else, on a machine without Java."""
    if find_spec("pyspark") is None:
        return False
    try:
        java_path(os.environ.get("JAVA_HOME"))
    except Missing:
        return False
    return True


def started(start: Callable[[], Started]) -> Started:
    """What `start` returns: Spark, started so that a Ctrl-C is one word and leaves nothing behind.

    In a thread, for two reasons. PySpark that is interrupted while Java starts forgets the process,
    and Java then never ends; here only the waiting is interrupted, and what was started is ended in
    good order. And in the main thread PySpark takes Ctrl-C for itself: it has Java cancel all jobs,
    over the connection on which an answer is awaited, and that fails aloud.
    """
    interrupted_quietly()
    answer: Future[Started] = Future()

    def work() -> None:
        try:
            answer.set_result(start())
        except BaseException as error:  # noqa: BLE001  for whoever waits
            answer.set_exception(error)

    thread = threading.Thread(target=work, name="starting Spark")
    try:
        thread.start()
        return answer.result()
    finally:
        thread.join()


def interrupted_quietly() -> None:
    """From now on py4j does not log a Ctrl-C with its traceback: we say it in one word."""
    import logging

    for name in PY4J_LOGS:
        logging.getLogger(name).addFilter(of_no_interrupt)  # a second time changes nothing


def of_no_interrupt(record: logging.LogRecord) -> bool:
    """Is a line of a log worth a place on the terminal? Not if a Ctrl-C is why it was written."""
    error = record.exc_info[1] if record.exc_info else None
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is None
