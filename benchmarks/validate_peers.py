"""How one asks Spark itself whether a counter ever falls: a window query, and transformWithState.

Both read with Spark's own Kafka connector. The window needs every record of a key in one place and
in order, so it shuffles and sorts them; transformWithState keeps a state for each key, in RocksDB.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.audit_connector import FETCH_BYTES, VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW = f"a Spark SQL window, connector {VERSION}"
WITH_STATE = f"transformWithState, connector {VERSION}"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_COUNT = "cast(get_json_object(cast(value as string), '$.count') as bigint)"


def _options(bootstrap: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.max.partition.fetch.bytes": str(FETCH_BYTES),
        "kafka.fetch.max.bytes": str(8 * FETCH_BYTES),
        "kafka.isolation.level": "read_committed",
    }


def _counts(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("key", "partition", "offset", f"{_COUNT} as count")


def falls_by_window(spark: SparkSession, bootstrap: str, topic: str) -> int:
    from pyspark.sql import Window, functions

    options = {**_options(bootstrap, topic), "endingOffsets": "latest"}
    rows = _counts(spark.read.format("kafka").options(**options).load())
    of_key = Window.partitionBy("partition", "key").orderBy("offset")
    last = functions.lag("count").over(of_key)
    return rows.withColumn("last", last).where("count < last").count()


def falls_by_state(spark: SparkSession, bootstrap: str, topic: str, scratch: Path) -> int:
    """One micro-batch with everything in it."""
    found: list[int] = []
    rows = _counts(spark.readStream.format("kafka").options(**_options(bootstrap, topic)).load())
    falls = rows.groupBy("key").transformWithStateInPandas(
        statefulProcessor=_processor(),
        outputStructType="key binary, last bigint, count bigint",
        outputMode="Append",
        timeMode="None",
    )
    query = (
        falls.writeStream.foreachBatch(lambda df, _number: found.append(df.count()))
        .option("checkpointLocation", str(scratch))
        .outputMode("append").trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return sum(found)


def _processor() -> Any:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Falls(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._last = handle.getValueState("last", "count bigint")

        def handleInputRows(self, key: Any, rows: Iterator[Any], _timers: Any) -> Iterator[Any]:  # noqa: N802
            state = self._last.get() if self._last.exists() else None
            last = None if state is None else state[0]
            told: list[tuple[Any, int, int]] = []
            for frame in rows:
                for count in frame.sort_values("offset")["count"]:
                    if last is not None and count < last:
                        told.append((key[0], last, count))
                    last = int(count)
            self._last.update((last,))
            yield pd.DataFrame(told, columns=["key", "last", "count"])

        def close(self) -> None: ...

    return Falls()
