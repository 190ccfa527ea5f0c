"""Kafka's logs on Spark: a source for DataFrames and streams, and our own work on many machines.

    import sexton.spark

    sexton.spark.register(spark)
    spark.read.format("sexton").option("subscribe", "orders") ...

The names below are imported when first used: whoever has no Spark can import sexton all the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sexton.base.errors import Missing
from sexton.base.extras import EXTRAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sexton.spark.retry import ordered_retry
    from sexton.spark.retry_handling import Message, Output
    from sexton.spark.session import spark_session
    from sexton.spark.sink import exactly_once, write_exactly_once
    from sexton.spark.sink_builder import exactly_once_writer
    from sexton.spark.sink_marker import SinkRefused
    from sexton.spark.source import SextonSource
    from sexton.spark.tasks import TasksFailed, run_on_spark
    from sexton.spark.validate_judging import stream_proof
    from sexton.spark.validate_proof import PromiseBroken, Proof
    from sexton.spark.validating import validate

_HOME = {
    "Message": "retry_handling",
    "Output": "retry_handling",
    "PromiseBroken": "validate_proof",
    "Proof": "validate_proof",
    "SextonSource": "source",
    "SinkRefused": "sink_marker",
    "TasksFailed": "tasks",
    "exactly_once": "sink",
    "exactly_once_writer": "sink_builder",
    "ordered_retry": "retry",
    "run_on_spark": "tasks",
    "spark_session": "session",
    "stream_proof": "validate_judging",
    "validate": "validating",
    "write_exactly_once": "sink",
}

__all__ = [
    "Message",
    "Output",
    "PromiseBroken",
    "Proof",
    "SextonSource",
    "SinkRefused",
    "TasksFailed",
    "exactly_once",
    "exactly_once_writer",
    "ordered_retry",
    "register",
    "run_on_spark",
    "spark_session",
    "stream_proof",
    "validate",
    "write_exactly_once",
]


def register(spark: SparkSession) -> None:
    """Makes `format("sexton")` known to a session."""
    from sexton.spark.session import make_known
    from sexton.spark.source import SextonSource

    make_known(spark, SextonSource)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = import_module(f"{__name__}.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise Missing(error.name, "is not installed", 'pip install "sexton[spark]"') from None
    return getattr(home, name)
