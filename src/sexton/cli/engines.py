"""Where partitions are read: on Spark, or in this process. `sexton audit` and `validate` ask."""

from __future__ import annotations

import os
from enum import StrEnum
from importlib.util import find_spec
from typing import Annotated

import typer

from sexton.base.errors import ConfigError, Missing
from sexton.base.java import java_path

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
MasterOption = Annotated[str, typer.Option("--master", metavar="URL", help="Spark's master.")]


def engine_for(chosen: Engine | None, master: str) -> Engine:
    """Who names a master wants it to be used, whatever is installed here."""
    if master != THIS_MACHINE:
        if chosen is Engine.local:
            hint = "leave out one of them"
            raise ConfigError("--master", "is Spark's, and --engine local is without it", hint)
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
