"""Do a few rows come to the driver as `toArrow` would bring them, and never some of them as all?"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.util import local_connect_and_auth

from sexton.spark.session import setting
from sexton.spark.sink_collecting import Collector

COLUMNS = (
    "binary(string(id)) AS key",
    "if(id % 3 = 0, null, repeat(string(id), 5)) AS value",
    "smallint(id % 3) AS partition",
    "timestamp_millis(id) AS timestamp",
    "if(id % 2 = 0, null, array(struct('h' AS key, binary('1') AS value))) AS headers",
)


def rows_of(spark: SparkSession, count: int, parts: int) -> DataFrame:
    return spark.range(0, count, 1, parts).selectExpr(*COLUMNS)


def table(batches: list[Any], like: Any) -> Any:
    return pa.Table.from_batches(batches, batches[0].schema).cast(like.schema)


@pytest.mark.parametrize("large", ["false", "true"])
@pytest.mark.parametrize("parts", [1, 3])
def test_rows_come_as_spark_would_bring_them(spark: SparkSession, parts: int, large: str) -> None:
    df = rows_of(spark, 100, parts)
    with setting(spark, "spark.sql.execution.arrow.useLargeVarTypes", large):
        whole: Any = df.toArrow()
        quick, plain = Collector(), Collector()
        plain._plain = True  # as with a Spark that has other parts
        for collector in (quick, plain):
            assert table(collector.first(df, 1_000), whole).equals(whole)
            assert table(collector.first(df, 7), whole).equals(whole.slice(0, 7))
        assert not quick._plain, "this Spark has all that is needed"


def test_no_rows_are_no_rows(spark: SparkSession) -> None:
    collector = Collector()
    assert sum(batch.num_rows for batch in collector.first(rows_of(spark, 0, 1), 10)) == 0
    assert not collector._plain


def test_a_spark_without_these_parts_is_asked_in_the_plain_way(spark: SparkSession) -> None:
    collector, df = Collector(), rows_of(spark, 5, 1)
    collector.first(df, 10)
    assert collector._parts is not None and spark.sparkContext._jvm is not None
    # What py4j has for a class that is not there.
    missing = spark.sparkContext._jvm.org.apache.spark.sql.execution.NoSuchExec
    collector._parts = replace(collector._parts, limit=missing)
    assert sum(batch.num_rows for batch in collector.first(df, 10)) == 5
    assert collector._plain


def test_a_stream_that_is_cut_off_is_not_taken_for_all(spark: SparkSession) -> None:
    """Java fails in the middle of its answer, and the connection ends as if that were all."""
    jvm: Any = spark.sparkContext._jvm
    collector, df = Collector(), rows_of(spark, 5, 1)
    collector.first(df, 10)
    assert collector._parts is not None

    def cut_off(planned: Any) -> Any:
        answer = jvm.java.util.ArrayList(planned.toJavaRDD().collect())
        answer.add(jvm.java.lang.Object())  # which Spark does not know how to write
        items = jvm.scala.jdk.javaapi.CollectionConverters.asScala(answer.iterator())
        return jvm.org.apache.spark.api.python.PythonRDD.serveIterator(items, "cut off")

    # The control: who only reads sees one batch, and no error.
    served = cut_off(collector._planned(df, 10))
    file, connection = local_connect_and_auth(served[0], served[1])
    with closing(connection), closing(file):
        assert len(list(NoOpSerializer().load_stream(file))) == 1  # type: ignore[no-untyped-call]
    collector._parts = replace(collector._parts, serve=cut_off)
    with pytest.raises(Exception, match="Unexpected element type"):
        collector.first(df, 10)
