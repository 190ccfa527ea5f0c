"""Ordered retry as a streaming query: a row that fails blocks its key, and nothing else.

    def handle(message):
        return invoice_for(message.value)          # raises: tried again, in order

    sexton.spark.ordered_retry(
        stream, handle, topic="orders", output_topic="invoices",
        bootstrap_servers=..., checkpoint=...)

The same machine as in `sexton.retry`, one for each partition of the main topic. One query owns all
of them, so there is no group: the sink's fresh epoch keeps everybody else out, and whatever a batch
does, outputs and locks and what it remembers, is in the sink's one transaction for it.

    retry_attempt    one micro-batch, from its rows to the commit
    retry_handling   the handler, in tasks
    retry_tick       why there is a batch when a retry is due and no row has come
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sexton.base.errors import ConfigError
from sexton.client.retry_topics import Names
from sexton.machines.retry_outcomes import Errors, check_errors
from sexton.machines.retry_settings import Backoff, Ceiling, Settings
from sexton.spark.batch_plans import plans_of
from sexton.spark.retry_attempt import Pipeline
from sexton.spark.retry_batch import RetryBatches
from sexton.spark.retry_handling import Handler
from sexton.spark.retry_stages import main_rows
from sexton.spark.retry_tick import Alarm, with_ticks
from sexton.spark.retry_topics import Topics
from sexton.spark.sink_protocol import PREFIX
from sexton.spark.sink_settings import checked_name, sink_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)
# Spark gives the Python process of a source ten seconds to come up, and no setting changes that.
# Where many start at once, or the machine is busy, this is too little for one that imports Spark.
SLOW_START = "Python worker failed to connect back"
STARTS = 8
_LOOK_S = 0.1
_NEEDED = ("key", "value", "partition", "offset", "timestamp")


def ordered_retry(
    df: DataFrame,
    handler: Handler,
    *,
    topic: str,
    output_topic: str,
    bootstrap_servers: str,
    checkpoint: str,
    name: str | None = None,
    lock_key: str = "key",
    max_attempts: int = 10,
    at_ceiling: Ceiling = "freed",
    backoff: Backoff | None = None,
    max_pending: int = 100_000,
    errors: Errors | None = None,
    retry_topic: str | None = None,
    lock_topic: str | None = None,
    dead_letter_topic: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    after_batch: int | None = None,
    growth_accepted: bool = False,
    replication: int | None = None,
) -> StreamingQuery:
    """Starts a query that hands each message of a topic to a handler, those of one key in order.

    `df` is a stream of `topic` and of no other, with the columns of Spark's Kafka source. The
    handler is given a `Message` and returns what is to be written to `output_topic`: nothing, a
    value (which gets the message's key), an `Output`, or several. What it raises decides as in
    `sexton.retry`: Retry, Dead and Drop as they say, other types by `errors`, else Retry.
    `lock_key` is what must stay in order, an expression over the columns. `name` is the pipeline's;
    checkpoint, topics and transactional id belong to it. While `max_pending` messages of a
    partition wait, no more rows are taken. `replication` is how many replicas the topics beside the
    main one have to have, else as many as that has. `trigger`, `options` and `after_batch` are as
    in `exactly_once`.
    """
    pipeline = pipeline_of(
        handler, topic=topic, output_topic=output_topic, bootstrap_servers=bootstrap_servers,
        name=name, lock_key=lock_key, errors=errors, retry_topic=retry_topic,
        lock_topic=lock_topic, dead_letter_topic=dead_letter_topic, options=options,
        after_batch=after_batch, growth_accepted=growth_accepted, replication=replication,
        settings=Settings(
            max_attempts=max_attempts, at_ceiling=at_ceiling, backoff=backoff or Backoff(),
            max_pending=max_pending, ids_per_task=True,
        ),
    )  # fmt: skip
    return start(df, pipeline, checkpoint, trigger)


def pipeline_of(
    handler: Handler,
    *,
    topic: str,
    output_topic: str,
    bootstrap_servers: str,
    settings: Settings,
    name: str | None = None,
    lock_key: str = "key",
    errors: Errors | None = None,
    retry_topic: str | None = None,
    lock_topic: str | None = None,
    dead_letter_topic: str | None = None,
    options: Mapping[str, str] | None = None,
    after_batch: int | None = None,
    growth_accepted: bool = False,
    replication: int | None = None,
) -> Pipeline:
    named = checked_name("name", name or f"retry-{topic}")
    # By the group, so that `sexton retry` finds them.
    names = Names.of(topic, f"{PREFIX}{named}", retry_topic, lock_topic, dead_letter_topic)
    if output_topic in (topic, *names.beside):
        raise ConfigError("output_topic", f"{output_topic} is another topic of this pipeline")
    topics = Topics(names, output_topic)
    check_errors(errors or {})
    sink = sink_settings(
        topic=None, bootstrap_servers=bootstrap_servers, options=options,
        marker_topic=topics.locks, after_batch=after_batch,
    )  # fmt: skip
    return Pipeline(
        named, topics, handler, errors or {}, lock_key, sink, settings, growth_accepted, replication
    )


def start(
    df: DataFrame, pipeline: Pipeline, checkpoint: str, trigger: Mapping[str, Any] | None = None
) -> StreamingQuery:
    if type(df).__module__.startswith("pyspark.sql.connect"):
        hint = "start it in a driver of its own (spark-submit)"
        raise ConfigError("ordered_retry", "a query cannot be run by Spark Connect", hint)
    missing = [column for column in _NEEDED if column not in df.columns]
    if missing:
        hint = "it has to be a stream of the topic itself, with the columns of Spark's Kafka source"
        raise ConfigError("df", f"has no column {', '.join(missing)}", hint)
    main_rows(df, pipeline.lock_key, pipeline.topics.main)  # wrong types are told of now
    for starts in range(1, STARTS + 1):
        batches, query = _started(df, pipeline, checkpoint, trigger)
        if starts == STARTS or _is_under_way(batches, query):
            break
        _LOG.warning("pipeline=%s start=%d failed=%s", pipeline.name, starts, SLOW_START)
    return query


def _started(
    df: DataFrame, pipeline: Pipeline, checkpoint: str, trigger: Mapping[str, Any] | None
) -> tuple[RetryBatches, StreamingQuery]:
    alarm = Alarm()
    batches = RetryBatches(pipeline, alarm)
    writer = with_ticks(df, alarm).writeStream.foreachBatch(batches)
    writer = writer.option("checkpointLocation", checkpoint).queryName(pipeline.name)
    if trigger:
        writer = writer.trigger(**trigger)
    query = writer.start()
    batches.belongs_to(query.id, lambda: query.isActive, plans_of(query))
    return batches, query


def _is_under_way(batches: RetryBatches, query: StreamingQuery) -> bool:
    """False: Spark was not ready for its first batch, which every run has, and may be next time."""
    while not batches.begun.wait(_LOOK_S):
        if not query.isActive:
            return SLOW_START not in str(query.exception())
    return True
