"""What a retry pipeline has Spark do: rows to their handler, and records to Kafka.

    rows of the batch ─┐
                       ├─ by key, in order ─▶ handler ─▶ kept ─▶ notes (driver)
    due retries ───────┘                                  └──▶ records ─┐
                                                 the driver's records ──┴─▶ sender

What the handler gave is kept by Spark without a way to make it again (a local checkpoint): if an
executor is lost, the attempt fails. To run the handler a second time for the missing part could
give other records than those that the driver has notes of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sexton.base.errors import ConfigError
from sexton.machines.retry_records import Header, RetryRecord
from sexton.machines.retry_rounds import Round
from sexton.spark.retry_handling import RECORD, RESULTS, ROWS, Handling, handled, results_schema
from sexton.spark.retry_outputs import says_what_was_refused
from sexton.spark.session import setting
from sexton.spark.sink_columns import prepared
from sexton.spark.sink_encoding import Encoding
from sexton.spark.sink_protocol import Answer, Plan, send
from sexton.spark.sink_senders import spread
from sexton.spark.sink_tasks import ANSWERS, BLOBS, answer_of, encoder, encoding_sender, sender

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Headers make large Arrow batches slow: 10,000 rows took ten times as long a row as 500.
_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_ROWS = 500
FEW = 50_000  # records that one task encodes and sends sooner than several and a shuffle


def main_rows(df: DataFrame, lock_key: str, topic: str) -> DataFrame:
    """The rows of a stream, as the handler's tasks want them."""
    from pyspark.sql.functions import expr

    headers = "headers" if "headers" in df.columns else "NULL"
    return df.select(
        expr("int(partition) AS of"),
        _id(df, topic).alias("id"),
        expr(f"binary({lock_key}) AS lock_key"),
        expr("false AS retry"),
        expr("0 AS attempts"),
        expr("binary(key) AS key"),
        expr("binary(value) AS value"),
        expr(f"CAST({headers} AS array<struct<key: string, value: binary>>) AS headers"),
        expr("unix_millis(timestamp) AS timestamp_ms"),
    )


def _id(df: DataFrame, topic: str) -> Column:
    """The offset: it names a message in its topic, and would name one of another topic wrongly."""
    from pyspark.sql.functions import coalesce, col, concat, expr, lit, raise_error, when

    offset = expr("bigint(offset)")
    if "topic" not in df.columns:
        return offset
    # `sink_insisting` knows the error by its name: to try again would not help.
    why = f"{ConfigError.__module__}.{ConfigError.__name__}: df: has a row of the topic "
    hint = f", and this pipeline is that of {topic} (give each topic a pipeline of its own)"
    told = concat(lit(why), coalesce(col("topic"), lit("null")), lit(hint))
    is_ours = col("topic").eqNullSafe(lit(topic))
    return when(is_ours, offset).otherwise(raise_error(told).cast("bigint"))


def due_rows(
    rounds: Mapping[int, Round], payloads: Mapping[int, Mapping[int, RetryRecord]]
) -> list[tuple[Any, ...]]:
    """The messages whose turn it is to be tried again, in the form of ROWS."""
    found = []
    for number, taken in rounds.items():
        for item in (item for lane in taken.retry_lanes for item in lane.items):
            record = payloads[number][item.id]
            found.append(
                (
                    number, item.id, item.key, True, item.attempts, record.key, record.value,
                    list(record.headers), record.timestamp_ms,
                )
            )  # fmt: skip
    return found


def handled_rows(
    spark: SparkSession, new: DataFrame | None, due: list[tuple[Any, ...]], handling: Handling
) -> DataFrame:
    """What the handler made of them: RESULTS, kept. `new` are `main_rows`."""
    rows = new
    if due or rows is None:
        retries = spark.createDataFrame(due, ROWS)
        rows = retries if rows is None else rows.union(retries)
    # Rows without a key are in nobody's way, and need not all go to the same task.
    lane = "hash(of, coalesce(lock_key, binary(string(id))))"
    from pyspark.sql.functions import expr

    by_key = rows.repartition(expr(lane)).sortWithinPartitions("of", "id")
    with setting(spark, _ARROW_ROWS, ARROW_ROWS):
        told = by_key.mapInArrow(handled(handling), RESULTS)
        return told.localCheckpoint(eager=True) if handling.rules.keeps else told


def forget(kept: DataFrame) -> None:
    """What is kept is of no use after its attempt; Spark would drop it some time later."""
    with suppress(Exception):  # it does so anyway
        rdd = kept._jdf.queryExecution().logical().rdd()
        kept.sparkSession.sparkContext._jsc.sc().unpersistRDD(rdd.id(), False)


def outputs_in(
    kept: DataFrame, besides: Iterable[str], most: int
) -> tuple[int, list[tuple[int, int, bytes | None, str]]]:
    """How many messages have outputs, and the first of these: partition, id, lock key, topic."""
    found = kept.where(kept.kind == RECORD).where(~kept.topic.isin(list(besides)))
    found = found.select("of", "id", "lock_key", "topic").distinct()
    some = [(row.of, row.id, row.lock_key, row.topic) for row in found.sort("of", "id").head(most)]
    return found.select("of", "id").distinct().count(), some


def record_row(
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header] = (),
) -> dict[str, Any]:
    """A record of the driver's."""
    return {
        "kind": RECORD, "topic": topic, "partition": partition, "key": key, "value": value,
        "headers": [{"key": name, "value": told} for name, told in headers],
        "timestamp": None,  # that of its writing
    }  # fmt: skip


def sent(
    kept: DataFrame,
    runs: Sequence[str] | None,
    ours: Sequence[dict[str, Any]],
    records: int,
    encoding: Encoding,
    plan: Plan,
) -> list[Answer]:
    """All records of these runs in one transaction, which stays open: the driver commits it."""
    if not records:
        return [send(plan, [])]
    rows = kept.where(kept.kind == RECORD)
    if runs is not None:
        rows = rows.where(kept.run.isin(list(runs)))
    if ours:
        import pyarrow as pa

        table = pa.Table.from_pylist(list(ours), results_schema())
        rows = rows.union(kept.sparkSession.createDataFrame(table).coalesce(1))
    rows = prepared(rows, None)
    if records <= FEW:
        send_rows = says_what_was_refused(encoding_sender(encoding, plan))
        told = rows.coalesce(1).mapInArrow(send_rows, ANSWERS)
    else:
        blobs = rows.mapInArrow(encoder(encoding), BLOBS)
        told = spread(blobs, 1).mapInArrow(says_what_was_refused(sender(plan)), ANSWERS)
    with setting(kept.sparkSession, _ARROW_ROWS, ARROW_ROWS):
        return [answer_of(row) for row in told.collect()]
