"""When was a batch planned? Spark notes it with the offsets, before anything of the batch is run.

A batch that is run again, after whatever failure, was planned once. Two times of planning are two
plans, of other rows perhaps: that of a checkpoint that was restored is one, and that of a copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

UNTOLD: Final = -1  # nobody knows
NOT_YET: Final = 0  # it will be planned when the query is started
PlannedAt = Callable[[int], int]  # the number of a batch to milliseconds, or UNTOLD


def untold(_number: int) -> int:
    return UNTOLD


def plans_of(query: StreamingQuery) -> PlannedAt:
    """By the log of offsets that the query itself writes, wherever its checkpoint is."""

    def planned_at(number: int) -> int:
        try:
            log = query._jsq.streamingQuery().offsetLog()
            return planned_ms(str(log.get(number).get().metadataOpt().get().json()))
        except Exception:  # noqa: BLE001  no part of Spark's interface: without it we do without
            return UNTOLD

    return planned_at


def planned_ms(metadata: str) -> int:
    """From what Spark writes beside the offsets of a batch."""
    try:
        return int(json.loads(metadata)["batchTimestampMs"])
    except (ValueError, KeyError, TypeError):
        return UNTOLD
