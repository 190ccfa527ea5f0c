"""What Spark calls with each micro-batch of a retry pipeline, and what is remembered between two.

What the driver knows of pending messages is good for one batch: the next one builds on it only if
this one was committed. Whatever fails, the batch is tried again from the start, with the fence and
with everything read anew; `retry_attempt` is one such attempt.
"""

from __future__ import annotations

import logging
import threading
import uuid
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.spark.background import BackgroundLoop
from sexton.spark.retry_attempt import Attempt, Known, Pipeline
from sexton.spark.retry_tick import Alarm, now_ms
from sexton.spark.sink_marker import Batch, SinkRefused
from sexton.spark.sink_protocol import Plan, TooSlow, abandon
from sexton.spark.sink_tasks import with_hint
from sexton.spark.sink_topics import client_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger(__name__)
LISTEN_MS = 10_000  # while something waits, an operator may have something to say about it


class RetryBatches:
    def __init__(self, pipeline: Pipeline, alarm: Alarm) -> None:
        self._pipeline = pipeline
        self._alarm = alarm
        self._run = str(uuid.uuid4())
        self._query = ""
        self._named = threading.Event()
        self._committed = False
        self._known: Known | None = None

    def belongs_to(self, query: str) -> None:
        """The id in the checkpoint; Spark tells it when the query has been started."""
        self._query = query
        self._named.set()

    def __call__(self, df: DataFrame, number: int) -> None:
        self._named.wait()
        sink = self._pipeline.sink
        batch = Batch(
            self._pipeline.name, number, self._query, self._run, self._committed, sink.after_batch
        )
        timeout_ms = sink.timeout_ms
        for attempt in range(1, sink.attempts + 1):
            try:
                self._attempt(df, self._plan(batch, timeout_ms))
                break
            except SinkRefused as error:
                raise with_hint(error) from error.__cause__
            except ConfigError as error:
                abandon(self._plan(batch, sink.timeout_ms))
                raise with_hint(error) from error.__cause__
            except Exception as error:
                if attempt == sink.attempts:
                    abandon(self._plan(batch, sink.timeout_ms))
                    raise
                if isinstance(error, TooSlow):
                    timeout_ms *= 2
                why = (str(error).strip() or repr(error)).splitlines()[0]
                _LOG.warning(
                    "pipeline=%s batch=%d attempt=%d failed=%s",
                    batch.pipeline, number, attempt, why,
                )  # fmt: skip
        self._alarm.set(self._due_ms())

    def _attempt(self, df: DataFrame, plan: Plan) -> None:
        known, self._known = self._known, None  # unless all goes well
        with BackgroundLoop() as loop:
            client = client_for(plan.kafka)
            try:
                attempt = Attempt(self._pipeline, plan, loop, client)
                known = known or attempt.start()
                if known is not None and attempt.write(df, known):
                    self._committed = True
                    self._known = known if known.is_good else None
            finally:
                loop.run(client.close())

    def _plan(self, batch: Batch, timeout_ms: int) -> Plan:
        sink = self._pipeline.sink
        marker_at = TopicPartition(sink.marker_topic, 0)
        return Plan(sink.kafka, batch, marker_at, timeout_ms, sink.patience, sink.probe)

    def _due_ms(self) -> int | None:
        """When a batch is wanted, whether rows have come or not."""
        now = now_ms()
        if self._known is None:
            return now
        tasks = [each.task for each in self._known.owned.values()]
        told = [due for task in tasks if (due := task.wake_at_ms(now)) is not None]
        if any(len(task.pending) for task in tasks):
            told.append(now + LISTEN_MS)
        return min(told, default=None)
