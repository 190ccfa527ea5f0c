"""When is there a micro-batch, though no row has come? When the time of a retry has.

Spark runs a batch when the offset of one of its sources has moved. So a retry pipeline has a second
source: it never has a row, and its offset is a time, which moves when the earliest retry is due, or
when nothing was committed for so long that Kafka might forget the pipeline:

    {"tick": 1731750000000}

When that is, the driver knows, who keeps what is pending. It says so in a file, for Spark asks the
source in another Python process on the driver's machine. A run begins with a tick: what is pending
has not been read then, and nobody could know when it is due.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from sexton.spark.session import make_known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "sexton_retry_tick"
_PATH = "path"
_TICK = "tick"
Json = dict[str, Any]


class Alarm:
    """The driver's side: at which time the next batch is wanted."""

    def __init__(self) -> None:
        directory = tempfile.mkdtemp(prefix="sexton-retry-")
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)  # with the query
        self.path = Path(directory) / "due"
        self.set(now_ms())

    def set(self, due_ms: int) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text(str(due_ms))
        fresh.replace(self.path)


def with_ticks(df: DataFrame, alarm: Alarm) -> DataFrame:
    """The same rows, and a batch without any whenever the alarm goes."""
    from pyspark.sql.functions import lit

    spark = df.sparkSession
    make_known(spark, TickSource)
    ticks = spark.readStream.format(NAME).option(_PATH, str(alarm.path)).load()
    none = [lit(None).cast(field.dataType).alias(field.name) for field in df.schema.fields]
    return df.union(ticks.select(*none))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class TickSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return f"{_TICK} bigint"

    def streamReader(self, schema: StructType) -> TickReader:  # noqa: ARG002, N802
        return TickReader(Path(self.options[_PATH]))


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._until_ms: int | None = None  # with Trigger.AvailableNow: what is due by then

    def initialOffset(self) -> Json:  # noqa: N802
        return {_TICK: 0}

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: ARG002, N802
        due_ms, now = self._due_ms(), now_ms()
        until_ms = now if self._until_ms is None else min(now, self._until_ms)
        if due_ms is None or due_ms > until_ms:
            return start
        return {_TICK: max(now, start[_TICK] + 1)}

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        return None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until_ms = now_ms()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:  # noqa: ARG002
        return []

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002
        return iter(())

    def _due_ms(self) -> int | None:
        try:
            return int(self._path.read_text())
        except FileNotFoundError:
            return None  # the query is over
