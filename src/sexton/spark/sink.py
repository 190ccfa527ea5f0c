"""Exactly-once from Spark to Kafka: every row of a stream or a DataFrame is in the topic once.

    sexton.spark.exactly_once(stream, topic="orders", bootstrap_servers=..., checkpoint=...)
    sexton.spark.write_exactly_once(df, job_id="orders-2024-06", topic="orders", ...)

Each micro-batch is one Kafka transaction, in three stages:

    encode (many tasks) ──▶ record batches ──shuffle──▶ one sender ──▶ Kafka
      rows in, bytes out: may run twice                  └─ its answer ─▶ driver commits

or, if the last batch was not large, in one (`sink_ways`): a task reads, encodes and sends, or it
reads and the driver does the rest. What the sender and the driver say to Kafka is in
`sink_protocol`, and why that is enough. Whatever fails, the batch is run again: here a few times
(`sink_insisting`), then by whoever starts the query again from its checkpoint.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.records.layout import Codec
from sexton.spark.batch_plans import PlannedAt, plans_of, untold
from sexton.spark.session import ARROW_BATCH_BYTES, arrow_batches_of, setting
from sexton.spark.sink_columns import prepared
from sexton.spark.sink_encoding import Encoding, encoded
from sexton.spark.sink_insisting import IsWanted, always, insist
from sexton.spark.sink_line import Line, Talk
from sexton.spark.sink_marker import Batch
from sexton.spark.sink_memory import looked_back
from sexton.spark.sink_protocol import (
    JOB,
    Answer,
    Plan,
    beginning,
    commit,
    deliver,
    in_time,
    is_ours,
    send,
)
from sexton.spark.sink_senders import (
    Senders,
    refuse_dynamic_allocation,
    senders_for,
    spread,
)
from sexton.spark.sink_settings import SinkSettings, checked_name, sink_settings
from sexton.spark.sink_tasks import (
    ANSWERS,
    BLOBS,
    answer_of,
    encoder,
    encoding_sender,
    sender,
)
from sexton.spark.sink_topics import TopicLimits, leaders_of, limits_by
from sexton.spark.sink_ways import Way, Ways

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

# A thousand blobs in one Arrow batch would be half a gigabyte.
_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


def exactly_once(
    df_stream: DataFrame,
    *,
    bootstrap_servers: str,
    checkpoint: str,
    topic: str | None = None,
    name: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    marker_topic: str | None = None,
    after_batch: int | None = None,
    senders: Senders = 1,
) -> StreamingQuery:
    """Starts a query that writes each row of a stream to Kafka exactly once.

    Columns are those of Spark's own Kafka sink: value, and if they are there key, headers, topic,
    partition; also timestamp. `topic` goes before the column. `name` is the pipeline's, and the
    checkpoint belongs to it; without one it is named by the id in the checkpoint. `trigger` is that
    of Spark (`{"availableNow": True}`), `options` are Kafka's (`compression.type`, `sasl...`).
    `senders` are tasks that write at the same time; "auto" takes as many as can.
    """
    settings = sink_settings(
        topic=topic, bootstrap_servers=bootstrap_servers, options=options,
        marker_topic=marker_topic, after_batch=after_batch, senders=senders,
    )  # fmt: skip
    return start(df_stream, settings, checkpoint, name, trigger)


def start(
    df_stream: DataFrame,
    settings: SinkSettings,
    checkpoint: str,
    name: str | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    if type(df_stream).__module__.startswith("pyspark.sql.connect"):
        hint = "start it in a driver of its own (spark-submit), or write DataFrames by job_id"
        raise ConfigError("exactly_once", "a stream cannot be written by Spark Connect", hint)
    # Here, and not batch by batch: Spark would plan it again each time.
    df_stream = prepared(df_stream, settings.topic)
    refuse_dynamic_allocation(df_stream.sparkSession, settings.senders)
    sink = _StreamSink(settings, None if name is None else checked_name("name", name))
    writer = df_stream.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    if trigger:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    query = writer.start()
    sink.belongs_to(query.id, lambda: query.isActive, plans_of(query))
    return query


def write_exactly_once(
    df: DataFrame,
    *,
    job_id: str,
    bootstrap_servers: str,
    topic: str | None = None,
    options: Mapping[str, str] | None = None,
    marker_topic: str | None = None,
    senders: Senders = 1,
) -> bool:
    """Writes a DataFrame in one transaction: readers of committed records see all of it or nothing.

    False: a job with this id has written before, and nothing was written now.
    """
    settings = sink_settings(
        topic=topic, bootstrap_servers=bootstrap_servers, options=options,
        marker_topic=marker_topic, senders=senders,
    )  # fmt: skip
    return write(df, settings, job_id)


def write(df: DataFrame, settings: SinkSettings, job_id: str) -> bool:
    pipeline = JOB + checked_name("job_id", job_id)
    refuse_dynamic_allocation(df.sparkSession, settings.senders)
    batch = Batch(pipeline, 0, query=job_id, run=str(uuid.uuid4()))
    line = Line(settings.kafka)
    try:
        return _written(prepared(df, settings.topic), settings, batch, Ways(), line)
    finally:
        line.hang_up()


class _StreamSink:
    """What Spark calls with each micro-batch, one after the other."""

    def __init__(self, settings: SinkSettings, name: str | None) -> None:
        self._settings = settings
        self._name = name
        self._run = str(uuid.uuid4())
        self._query = ""
        self._is_active: IsWanted = always
        self._planned_at: PlannedAt = untold
        self._named = threading.Event()
        self._committed = False
        self._ways = Ways()
        self._line = Line(settings.kafka)

    def belongs_to(self, query: str, is_active: IsWanted, planned_at: PlannedAt) -> None:
        """The id in the checkpoint; Spark tells it when the query has been started."""
        self._query = query
        self._is_active = is_active
        self._planned_at = planned_at
        self._named.set()

    def __call__(self, df: DataFrame, number: int) -> None:
        self._named.wait()
        batch = Batch(
            self._name or self._query, number, self._query, self._run, self._committed,
            self._settings.after_batch, self._planned_at(number),
        )  # fmt: skip
        began_s = time.monotonic()
        if _written(df, self._settings, batch, self._ways, self._line, self._is_active):
            self._committed = True
        self._ways.took(time.monotonic() - began_s)


# ── one batch, which has no columns but those that are written ──


def _written(
    df: DataFrame, settings: SinkSettings, batch: Batch, ways: Ways, line: Line,
    is_wanted: IsWanted = always,
) -> bool:  # fmt: skip
    def attempt(plan: Plan, number: int) -> bool:
        way = Way.LONG
        if number == 1 and settings.senders == 1:
            way = ways.choose(df, plan.timeout_ms)
        with line.talk() as talk, in_time(plan):
            line.meet(talk, plan.patience)
            plan = talk.loop.run(looked_back(plan, talk.client))
            return _attempt(df, settings, plan, ways, way, talk)

    return insist(
        "exactly-once sink", settings, lambda timeout_ms: _plan(settings, batch, timeout_ms),
        attempt, is_wanted,
    )  # fmt: skip


def _attempt(
    df: DataFrame, settings: SinkSettings, plan: Plan, ways: Ways, way: Way, talk: Talk
) -> bool:
    answers: list[Answer] = []
    if way is Way.HERE:
        way, answers = _from_here(df, settings, plan, ways, talk)
    if way is not Way.HERE:
        topics = talk.loop.run(_limits(settings, talk))
        encoding = _encoding(settings, plan, topics)
        plan = replace(plan, senders=_senders(df, settings, topics))
        if way is Way.LONG:
            answers = _answers(df, encoding, plan)
        else:
            answers = _in_one_task(df, encoding, plan, ways.at_once)
    if not answers:  # Spark knows that there are no rows, and has run no sender
        plan = replace(plan, senders=1)
        answers = [send(plan, [])]
    written = commit(plan, answers, talk) or is_ours(plan, answers)
    rows_sent, sent = sum(each.records for each in answers), sum(each.size for each in answers)
    ways.wrote(rows_sent, sent, packed=settings.codec is not Codec.NONE)
    return written


def _limits(settings: SinkSettings, talk: Talk) -> Coroutine[Any, Any, dict[str, TopicLimits]]:
    wanted = {settings.topic, settings.marker_topic} - {None}
    names = sorted(name for name in wanted if name is not None)
    return limits_by(talk.client, names, settings.patience)


def _encoding(settings: SinkSettings, plan: Plan, topics: Mapping[str, TopicLimits]) -> Encoding:
    return Encoding(
        settings.kafka, settings.topic, topics, settings.codec, settings.batch_bytes,
        time.time_ns() // 1_000_000, plan.batch.number, settings.patience,
    )  # fmt: skip


def _plan(settings: SinkSettings, batch: Batch, timeout_ms: int, senders: int = 1) -> Plan:
    return Plan(
        settings.kafka, batch, TopicPartition(settings.marker_topic, 0), timeout_ms,
        settings.patience, settings.probe, senders=senders, rules=settings.rules,
        requests_of=settings.requests_of,
    )  # fmt: skip


def _senders(df: DataFrame, settings: SinkSettings, topics: Mapping[str, TopicLimits]) -> int:
    known = None if settings.topic is None else topics[settings.topic].partitions
    return senders_for(df.sparkSession, settings.senders, known or sys.maxsize)


def _from_here(
    rows: DataFrame, settings: SinkSettings, plan: Plan, ways: Ways, talk: Talk
) -> tuple[Way, list[Answer]]:
    """The driver is the sender. If it is too much for it, nothing is sent, and another way told."""
    limits = talk.loop.ahead(_limits(settings, talk))
    begun = talk.loop.ahead(beginning(plan, talk.client))
    try:
        batches = ways.collected(rows)
        if isinstance(batches, Way):
            return batches, []
        # All is encoded before any is sent: a row that cannot be leaves nothing open.
        topics = limits.result()
        blobs = list(encoded(_encoding(settings, plan, topics), 0, batches))
        return Way.HERE, [deliver(plan, begun.result(), blobs, 0, talk, leaders_of(topics))]
    finally:
        limits.cancel()
        begun.cancel()


def _in_one_task(rows: DataFrame, encoding: Encoding, plan: Plan, at_once: int) -> list[Answer]:
    with arrow_batches_of(rows.sparkSession, at_once):
        told = rows.coalesce(1).mapInArrow(encoding_sender(encoding, plan), ANSWERS)
        return [answer_of(row) for row in told.collect()]


def _answers(rows: DataFrame, encoding: Encoding, plan: Plan) -> list[Answer]:
    several = plan.senders > 1
    with setting(rows.sparkSession, _ARROW_BYTES, ARROW_BATCH_BYTES):
        blobs = rows.mapInArrow(encoder(encoding), BLOBS)
        # A barrier stage that is the last one fails its job at once, and the batch is run again. In
        # front of another stage Spark would make it again by itself, but may wait for ever then: a
        # task that succeeds while its stage is being given up counts for the next attempt.
        told = spread(blobs, plan.senders).mapInArrow(sender(plan), ANSWERS, barrier=several)
        return [answer_of(row) for row in told.collect()]
