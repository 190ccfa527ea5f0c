"""Which way does a micro-batch go to Kafka: through a shuffle, or through a single task?

    long    encode (many tasks) ──shuffle──▶ send (one task, or several at once)
    short   read, encode and send (one task)

The long way uses every core and keeps what it has encoded, should the sender fail. The short way
saves the shuffle and a second stage: half the work, and for a small batch most of the waiting. Its
one task works through all partitions of the source, one after the other, inside the transaction.

So a batch goes the short way if the last one took little of `transaction.timeout.ms`. The first of
a run goes the long way, as nobody knows how large it is, and so does whatever is tried again. A
query with a shuffle or state of its own always does: one task would do the work of its last stage
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARE = 6  # of the time that a transaction has; the next batch may be so many times as large
_STAGES = ("ShuffledRowRDD", "ShuffledRDD", "StateStoreRDD")


class Ways:
    """Of one stream, batch by batch."""

    def __init__(self) -> None:
        self._last_s: float | None = None
        self._narrow: bool | None = None  # None: nobody has looked

    def short(self, df: DataFrame, timeout_ms: int) -> bool:
        if self._last_s is None or self._last_s * 1000 * SHARE > timeout_ms:
            return False
        if self._narrow is None:
            self._narrow = is_narrow(df)
        return self._narrow

    def took(self, seconds: float) -> None:
        self._last_s = seconds


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
