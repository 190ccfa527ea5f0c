"""What Spark calls with each micro-batch of a retry pipeline, and what is remembered between two.

What the driver knows of pending messages is good for one batch: the next one builds on it only if
this one was committed. Whatever fails, the batch is tried again from the start, with the fence and
with everything read anew, unless that is of no use (`sink_insisting`); `retry_attempt` is one such
attempt.

A stream cannot be told to wait, but a batch can. While as many messages wait as may, its rows are
not taken: the batch stays open, and retries alone are run, in transactions of their own. For these
the marker says again what it said, that the batch before is there:

    batch 7  ──▶  retries (marker 6)  ──▶  retries (marker 6)  ──▶  rows and retries (marker 7)

If the driver dies meanwhile, the next one finds marker 6 and takes the batch up.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from sexton.base.errors import SextonError
from sexton.base.partitions import TopicPartition
from sexton.spark.asking import meet
from sexton.spark.background import BackgroundLoop
from sexton.spark.batch_plans import UNTOLD, PlannedAt, untold
from sexton.spark.retry_attempt import Attempt, Known, Pipeline
from sexton.spark.retry_reading import TELL_AGAIN_MS
from sexton.spark.retry_stages import main_rows
from sexton.spark.retry_tick import Alarm, now_ms
from sexton.spark.sink_insisting import IsWanted, always, insist, rest
from sexton.spark.sink_marker import Batch, Marker, is_to_write
from sexton.spark.sink_memory import looked_back
from sexton.spark.sink_protocol import Plan
from sexton.spark.sink_topics import client_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LISTEN_MS = 10_000  # while something waits, an operator may have something to say about it


class Stopped(SextonError):
    """The query was stopped while a batch waited; the next run takes it up."""


class RetryBatches:
    def __init__(self, pipeline: Pipeline, alarm: Alarm) -> None:
        self._pipeline = pipeline
        self._alarm = alarm
        self._run = str(uuid.uuid4())
        self._query = ""
        self._is_active: IsWanted = always
        self._planned_at: PlannedAt = untold
        self._named = threading.Event()
        self._committed = False
        self._has_met_brokers = False  # in this run; the address may have been mistyped
        self._prepared = False  # topics were made and looked at in this run
        self._known: Known | None = None
        self.begun = threading.Event()  # Spark has come as far as a batch

    def belongs_to(
        self, query: str, is_active: IsWanted = always, planned_at: PlannedAt = untold
    ) -> None:
        """The id in the checkpoint; Spark tells it when the query has been started."""
        self._query = query
        self._is_active = is_active
        self._planned_at = planned_at
        self._named.set()

    def __call__(self, df: DataFrame, number: int) -> None:
        self.begun.set()
        self._named.wait()
        while not self._insist(df, number):
            self._wait()
        self._alarm.set(self._due_ms())

    def _insist(self, df: DataFrame, number: int) -> bool:
        """False: retries alone, and its rows are still to be taken."""
        return insist(
            "ordered retry", self._pipeline.sink, lambda timeout_ms: self._plan(number, timeout_ms),
            lambda plan, _attempt: self._attempt(df, plan), self._is_active,
        )  # fmt: skip

    def _attempt(self, df: DataFrame, plan: Plan) -> bool:
        known, self._known = self._known, None  # unless all goes well
        with BackgroundLoop() as loop:
            client = client_for(plan.kafka)
            try:
                if not self._has_met_brokers:
                    loop.run(meet(client, plan.patience))
                    self._has_met_brokers = True
                plan = loop.run(looked_back(plan, client))
                attempt = Attempt(self._pipeline, plan, loop, client)
                known = known or attempt.start(is_prepared=self._prepared)
                self._prepared = True
                if known is None:
                    return True
                full = known.is_full and plan.batch.number > 0  # before the first nothing waits
                if full:
                    attempt = replace(attempt, plan=_with_retries_alone(plan))
                pipeline = self._pipeline
                new = None if full else main_rows(df, pipeline.lock_key, pipeline.topics.main)
                if attempt.write(df.sparkSession, new, known):
                    self._committed = True
                    self._known = known if known.is_good else None
                return not full
            finally:
                loop.run(client.close())

    def _plan(self, number: int, timeout_ms: int) -> Plan:
        sink = self._pipeline.sink
        batch = Batch(
            self._pipeline.name, number, self._query, self._run, self._committed,
            sink.after_batch, self._planned_at(number),
        )  # fmt: skip
        marker_at = TopicPartition(sink.marker_topic, 0)
        return Plan(
            sink.kafka, batch, marker_at, timeout_ms, sink.patience, sink.probe, rules=sink.rules
        )

    # ── when the next one is wanted ──

    def _due_ms(self) -> int:
        """When a batch is wanted, whether rows have come or not.

        Also where nothing waits: Kafka forgets the marker and the positions of a pipeline that has
        committed nothing for `offsets.retention.minutes`, and the row that ends a quiet week would
        end the query, too.
        """
        now = now_ms()
        if self._known is None:
            return now
        tasks = [each.task for each in self._known.owned.values()]
        # Since when, if it is overdue: Trigger.AvailableNow takes what was due when it began.
        told = [due for task in tasks if (due := task.wake_at_ms(0)) is not None]
        waits = any(len(task.pending) for task in tasks)
        return min([*told, now + (LISTEN_MS if waits else TELL_AGAIN_MS)])

    def _wait(self) -> None:
        """Until a retry is due, as the rows of this batch were not taken; or until they can be."""
        if self._known is not None and not self._known.is_full:
            return
        if not rest(self._due_ms() - now_ms(), self._is_active):
            why = "was stopped while it waited for messages to be settled"
            raise Stopped(self._pipeline.name, why)


def _with_retries_alone(plan: Plan) -> Plan:
    before = replace(plan.batch, number=plan.batch.number - 1, planned_ms=UNTOLD)
    return replace(plan, batch=before, rules=replace(plan.rules, is_to_write=_is_there))


def _is_there(batch: Batch, marker: Marker | None) -> bool:
    """Of the batch before: it is, as it has to be if retries alone are to be written after it."""
    return not is_to_write(batch, marker)
