"""A few rows of a micro-batch to the driver, with nothing that few rows do not need.

    the plan of the batch ──▶ in one part ──▶ at most so many rows ──▶ Arrow ──▶ here

`limit` and `toArrow` are made for any query: Spark resolves and plans it anew, writes the plan down
for whoever watches, and PySpark asks for settings and types, one call to Java after the other. For
a thousand rows all that takes as long as to read them. A micro-batch has its plan already: we put
these steps on top of it, and run it as it is.

These are parts of Spark that nobody promised to keep. Where one is missing, `toArrow` does it.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger(__name__)
_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"


@dataclass(frozen=True, slots=True)
class _Parts:
    """What does not change from one batch of a stream to the next."""

    coalesce: Any
    limit: Any
    serve: Any
    schema: Any  # Arrow's, of the rows


class Collector:
    """Of one stream."""

    def __init__(self) -> None:
        self._parts: _Parts | None = None
        self._plain = False  # something is missing

    def first(self, df: DataFrame, rows: int) -> list[Any]:
        """So many of its rows at most, in their order, as Arrow batches."""
        planned = None if self._plain else self._planned(df, rows)
        if planned is None:
            table: Any = df.coalesce(1).limit(rows).toArrow()
            return list(table.to_batches())
        return self._run(planned)

    def _planned(self, df: DataFrame, rows: int) -> Any:
        """An RDD of Arrow batches; nothing is run."""
        try:
            if self._parts is None:
                self._parts = _parts(df)
            jdf = df._jdf
            one = self._parts.coalesce(1, jdf.queryExecution().executedPlan())
            return jdf.toArrowBatchRdd(self._parts.limit(rows, one))
        except Exception as error:  # noqa: BLE001  whatever py4j makes of it
            self._plain = True
            _LOG.info("collecting=toArrow why=%s", str(error).splitlines()[:1])
            return None

    def _run(self, planned: Any) -> list[Any]:
        import pyarrow as pa
        from pyspark.serializers import NoOpSerializer
        from pyspark.util import local_connect_and_auth

        assert self._parts is not None
        served = self._parts.serve(planned)  # the job is done when this returns
        try:
            file, connection = local_connect_and_auth(served[0], served[1])
            with closing(connection), closing(file):
                connection.settimeout(None)
                return [
                    pa.ipc.read_record_batch(pa.py_buffer(each), self._parts.schema)
                    for each in NoOpSerializer().load_stream(file)  # type: ignore[no-untyped-call]
                ]
        finally:
            # A stream that was cut off looks like one that has ended; only its writer knows.
            served[2].getResult()


def _parts(df: DataFrame) -> _Parts:
    from pyspark.sql.pandas.types import to_arrow_schema

    spark = df.sparkSession
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    large = str(spark.conf.get(_LARGE)) == "true"
    return _Parts(
        jvm.org.apache.spark.sql.execution.CoalesceExec,
        jvm.org.apache.spark.sql.execution.LocalLimitExec,
        jvm.org.apache.spark.api.python.PythonRDD.collectAndServe,
        to_arrow_schema(df.schema, timezone="UTC", prefers_large_types=large),
    )
