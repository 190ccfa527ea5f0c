"""More is due than the driver may read at once: is it tried in turns, and each key in order?"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sexton.machines.retry_pending import Held, Pending
from sexton.machines.retry_records import TaskName
from sexton.machines.retry_task import Task
from sexton.spark import Message, retry_attempt, retry_stages
from sexton.spark.retry_attempt import Known
from sexton.spark.retry_batch import RetryBatches
from sexton.spark.retry_reading import Owned
from sexton.spark.retry_tick import Alarm
from sexton.testing.embedded import EmbeddedCluster
from tests.spark.retry_pipelines import ROWS, SETTINGS, Driver, locks, outputs, pipeline
from tests.spark.sink_faults import trouble


def fails_once(message: Message) -> bytes | None:
    number = int(message.value or b"")
    if number < 6 and not message.attempts:  # the first of each key
        raise ValueError(f"not {number} yet")
    return message.value


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[int, int]]]:
    """Of each batch that has some, the partition and id of what is tried again."""
    seen: list[list[tuple[int, int]]] = []
    rows_of = retry_stages.due_rows

    def watched(*given: Any) -> Any:
        rows = rows_of(*given)
        if rows:
            seen.append([(row[0], row[1]) for row in rows])
        return rows

    monkeypatch.setattr(retry_attempt, "due_rows", watched)
    return seen


@pytest.mark.parametrize("is_bounded", [True, False])
def test_what_is_due_is_read_up_to_so_many_bytes_and_each_key_keeps_its_order(
    spark: SparkSession,
    three: EmbeddedCluster,
    due: list[list[tuple[int, int]]],
    monkeypatch: pytest.MonkeyPatch,
    is_bounded: bool,
) -> None:
    if is_bounded:
        monkeypatch.setattr(retry_attempt, "DUE_BYTES", 1)  # one message of each partition
    topic = f"payloads-{is_bounded}".lower()
    ours = pipeline(three, topic, fails_once)
    driver = Driver(spark, ours)
    driver.run(0, range(12))  # each key has two that wait: one that failed, and one behind it
    assert len(locks(three, ours)) == 12
    driver.run(1, range(12, ROWS))  # these wait behind them, or come after them
    driver.settle(2)
    assert locks(three, ours) == {}
    assert trouble(outputs(three, topic), ROWS) == []
    most = max(len(batch) - len({of for of, _ in batch}) for batch in due)
    assert (most == 0) is is_bounded  # not bounded: several of a partition at once


def test_what_was_left_is_due_as_of_its_own_time(three: EmbeddedCluster) -> None:
    """Else a run with Trigger.AvailableNow would end before it."""
    pending = Pending()
    pending.put(3, Held(b"k", 0, not_before_ms=1_000, since_ms=0, dead=False, retry_offset=5))
    pending.offer(b"k")
    task = Task(TaskName("orders", 0), SETTINGS, Random(1), 4, 1, pending)
    batches = RetryBatches(pipeline(three, "overdue"), Alarm())
    batches._known = Known({0: Owned(task, 0)}, None)
    assert batches._due_ms() == 1_000
