"""Which way does a micro-batch go to Kafka: through a shuffle, one task, or the driver?

    long    encode (many tasks) ──shuffle──▶ send (one task, or several at once)
    short   read, encode and send (one task)
    here    read (one task) ──rows──▶ encode and send (the driver)

The long way uses every core and keeps what it has encoded, should the sender fail. The short way
saves the shuffle and a second stage: half the work. Its one task works through all partitions of
the source, one after the other, inside the transaction. To bring a task and its answer to a Python
worker and back takes as much as a few ten thousand rows do; so the driver takes few rows itself,
and has its epoch and the marker while Spark still reads them.

A batch goes the short way if the last one took little of `transaction.timeout.ms`, and is sent from
here if that was small as well. The driver asks for no more rows than would be small again if they
are as large as the last ones: if there are more, it leaves them to a task. If they turn out to be
much larger, they go the long way, where Spark watches how large they are; so do those that Spark
will not give to the driver (`spark.driver.maxResultSize`). The first batch of a run goes the long
way, as nobody knows how large it is, and so does whatever is tried again. A query with a shuffle or
state of its own always does: one task would do the work of its last stage alone.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARE = 6  # of the time that a transaction has; the next batch may be so many times as large
FEW_ROWS, FEW_BYTES = 10_000, 2 << 20  # what the driver takes
MOST_BYTES = 16 * FEW_BYTES  # and what it sends nevertheless, since it is there
# Rows that go to Python at once: some MB of them, if they are as large as the last ones.
_AT_ONCE, _AT_ONCE_BYTES = 10_000, 4 << 20
_ROW_BYTES = 4 << 10  # until one has been seen
_PACKED = 16  # rows are taken to be so many times as large as what was sent, if it was compressed
_STAGES = ("ShuffledRowRDD", "ShuffledRDD", "StateStoreRDD")


class Way(Enum):
    LONG = "long"
    SHORT = "short"
    HERE = "here"


class Ways:
    """Of one stream, batch by batch."""

    def __init__(self) -> None:
        self._last_s: float | None = None
        self._rows = self._size = 0  # of the last one
        self._row_bytes = _ROW_BYTES  # of the last one that had rows
        self._narrow: bool | None = None  # None: nobody has looked

    def choose(self, df: DataFrame, timeout_ms: int) -> Way:
        if self._last_s is None or self._last_s * 1000 * SHARE > timeout_ms:
            return Way.LONG
        if self._narrow is None:
            self._narrow = is_narrow(df)
        if not self._narrow:
            return Way.LONG
        return Way.HERE if self._rows < FEW_ROWS and self._size < FEW_BYTES else Way.SHORT

    def collected(self, df: DataFrame) -> list[Any] | Way:
        """All rows as Arrow batches; or the way they have to go, as they are many or large."""
        few = max(1, min(FEW_ROWS, FEW_BYTES // self._row_bytes))
        batches = first_rows(df, few + 1)
        if sum(batch.num_rows for batch in batches) > few:
            return Way.SHORT
        return batches if sum(batch.nbytes for batch in batches) <= MOST_BYTES else Way.LONG

    @property
    def at_once(self) -> int:
        """How many rows should go to Python at once."""
        return max(1, min(_AT_ONCE, _AT_ONCE_BYTES // self._row_bytes))

    def wrote(self, rows: int, sent: int, *, packed: bool) -> None:
        size = sent * _PACKED if packed else sent
        self._rows, self._size = rows, size
        if rows:
            self._row_bytes = max(1, size // rows)

    def took(self, seconds: float) -> None:
        self._last_s = seconds


def first_rows(df: DataFrame, most: int) -> list[Any]:
    """In their order, as Arrow batches."""
    table: Any = df.coalesce(1).limit(most).toArrow()
    return list(table.to_batches())


def is_narrow(df: DataFrame) -> bool:
    """Is it all one stage? Nothing is run to find out."""
    try:
        execution = df._jdf.queryExecution()
        # First the plan: to ask a plan with an exchange for its lineage would run it.
        if "Exchange" in str(execution.executedPlan().toString()):
            return False
        lineage = str(execution.toRdd().toDebugString())
    except Exception:  # noqa: BLE001  Spark Connect has no such things, and that is all we need
        return False
    return not any(stage in lineage for stage in _STAGES)
