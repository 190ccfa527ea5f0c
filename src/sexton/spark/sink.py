"""Exactly-once from Spark to Kafka: every row of a stream or a DataFrame is in the topic once.

    sexton.spark.exactly_once(stream, topic="orders", bootstrap_servers=..., checkpoint=...)
    sexton.spark.write_exactly_once(df, job_id="orders-2024-06", topic="orders", ...)

Each micro-batch is one Kafka transaction, in three stages:

    encode (many tasks) ──▶ record batches ──shuffle──▶ one sender ──▶ Kafka
      rows in, bytes out: may run twice                  └─ its answer ─▶ driver commits

What the sender and the driver say to Kafka is in `sink_protocol`, and why that is enough. Whatever
fails, the batch is run again: here a few times, then by whoever starts the query again from its
checkpoint. What cannot become right by that (`SinkRefused`, `ConfigError`) is raised at once.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sexton.base.errors import ConfigError, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.transacting import Committed, Transaction
from sexton.spark.background import BackgroundLoop
from sexton.spark.session import ARROW_BATCH_BYTES
from sexton.spark.sink_encoding import Encoding, encoded
from sexton.spark.sink_marker import Batch, SinkRefused
from sexton.spark.sink_protocol import Answer, Plan, commit, send
from sexton.spark.sink_settings import SinkSettings, checked_name, sink_settings
from sexton.spark.sink_topics import topic_limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)
BLOBS = "topic string, partition int, source int, number bigint, blob binary"
ANSWERS = (
    "transactional_id string, producer_id bigint, epoch int, version int, "
    "marker bigint, metadata string, records bigint"
)
_HELD_BYTES = 8 << 20  # of blobs, until they are given to Spark
_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_OUR_ERROR = re.compile(r"sexton\.base\.errors\.(?:ConfigError|Missing): (?P<text>.*)")


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
) -> StreamingQuery:
    """Starts a query that writes each row of a stream to Kafka exactly once.

    Columns are those of Spark's own Kafka sink: value, and if they are there key, headers, topic,
    partition; also timestamp. `topic` goes before the column. `name` is the pipeline's, and the
    checkpoint belongs to it; without one it is named by the id in the checkpoint. `trigger` is that
    of Spark (`{"availableNow": True}`), `options` are Kafka's (`compression.type`, `sasl...`).
    """
    settings = sink_settings(
        topic=topic, bootstrap_servers=bootstrap_servers, options=options,
        marker_topic=marker_topic, after_batch=after_batch,
    )  # fmt: skip
    return start(df_stream, settings, checkpoint, name, trigger)


def start(
    df_stream: DataFrame,
    settings: SinkSettings,
    checkpoint: str,
    name: str | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    prepared(df_stream, settings.topic)  # what is wrong with its columns is said now
    sink = _StreamSink(settings, None if name is None else checked_name("name", name))
    writer = df_stream.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    if trigger:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    query = writer.start()
    sink.belongs_to(query.id)
    return query


def write_exactly_once(
    df: DataFrame,
    *,
    job_id: str,
    bootstrap_servers: str,
    topic: str | None = None,
    options: Mapping[str, str] | None = None,
    marker_topic: str | None = None,
) -> bool:
    """Writes a DataFrame in one transaction: readers of committed records see all of it or nothing.

    False: a job with this id has written before, and nothing was written now.
    """
    settings = sink_settings(
        topic=topic, bootstrap_servers=bootstrap_servers, options=options,
        marker_topic=marker_topic,
    )  # fmt: skip
    return write(df, settings, job_id)


def write(df: DataFrame, settings: SinkSettings, job_id: str) -> bool:
    pipeline = "job-" + checked_name("job_id", job_id)
    return _written(df, settings, Batch(pipeline, 0, query=job_id, run=str(uuid.uuid4())))


class _StreamSink:
    """What Spark calls with each micro-batch, one after the other."""

    def __init__(self, settings: SinkSettings, name: str | None) -> None:
        self._settings = settings
        self._name = name
        self._run = str(uuid.uuid4())
        self._query = ""
        self._named = threading.Event()
        self._committed = False

    def belongs_to(self, query: str) -> None:
        """The id in the checkpoint; Spark tells it when the query has been started."""
        self._query = query
        self._named.set()

    def __call__(self, df: DataFrame, number: int) -> None:
        self._named.wait()
        batch = Batch(
            self._name or self._query, number, self._query, self._run, self._committed,
            self._settings.after_batch,
        )  # fmt: skip
        if _written(df, self._settings, batch):
            self._committed = True


# ── one batch ──


def _written(df: DataFrame, settings: SinkSettings, batch: Batch) -> bool:
    for attempt in range(1, settings.attempts + 1):
        try:
            return _attempt(df, settings, batch)
        except (SinkRefused, ConfigError) as error:
            raise _with_hint(error) from error.__cause__
        except Exception as error:
            final = _OUR_ERROR.search(str(error))
            if final is not None:
                raise ConfigError("exactly-once sink", final["text"].strip()) from error
            if attempt == settings.attempts:
                raise
            why = (str(error).strip() or repr(error)).splitlines()[0]
            _LOG.warning(
                "pipeline=%s batch=%d attempt=%d failed=%s",
                batch.pipeline, batch.number, attempt, why,
            )  # fmt: skip
    raise AssertionError("there is at least one attempt")


def _attempt(df: DataFrame, settings: SinkSettings, batch: Batch) -> bool:
    with BackgroundLoop() as loop:
        wanted = {settings.topic, settings.marker_topic} - {None}
        names = sorted(name for name in wanted if name is not None)
        topics = loop.run(topic_limits(settings.kafka, names, settings.patience))
    encoding = Encoding(
        settings.kafka, settings.topic, topics, settings.codec, settings.batch_bytes,
        time.time_ns() // 1_000_000, batch.number, settings.patience,
    )  # fmt: skip
    plan = Plan(
        settings.kafka, batch, TopicPartition(settings.marker_topic, 0), settings.timeout_ms,
        settings.patience, settings.probe,
    )  # fmt: skip
    with _arrow_batches(df.sparkSession):
        blobs = prepared(df, settings.topic).mapInArrow(encoder(encoding), BLOBS)
        ordered = blobs.repartition(1).sortWithinPartitions("source", "number")
        told = ordered.mapInArrow(sender(plan), ANSWERS).collect()
    answers = [_answer(row) for row in told]
    if not answers:  # Spark knows that there are no rows, and has run no sender
        answers = [send(plan, [])]
    return commit(plan, answers)


@contextmanager
def _arrow_batches(spark: SparkSession) -> Iterator[None]:
    """A thousand blobs in one Arrow batch would be half a gigabyte."""
    before = spark.conf.get(_ARROW_BYTES, None)
    spark.conf.set(_ARROW_BYTES, str(ARROW_BATCH_BYTES))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_ARROW_BYTES)
        else:
            spark.conf.set(_ARROW_BYTES, before)


def _with_hint(error: SextonError) -> SextonError:
    """Spark shows the text of an error and nothing else."""
    if error.hint and error.hint not in str(error):
        error.args = (f"{error} ({error.hint})",)
    return error


# ── what runs in tasks ──


def encoder(encoding: Encoding) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def encode(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        source = context.partitionId()
        schema = pa.schema(
            [
                ("topic", pa.string()), ("partition", pa.int32()), ("source", pa.int32()),
                ("number", pa.int64()), ("blob", pa.binary()),
            ]
        )  # fmt: skip
        held: list[tuple[str, int, int, int, bytes]] = []
        size = 0
        try:
            for number, (at, blob) in enumerate(encoded(encoding, source, batches)):
                held.append((at.topic, at.partition, source, number, blob))
                size += len(blob)
                if size >= _HELD_BYTES:
                    yield _record_batch(schema, held)
                    held, size = [], 0
        except ConfigError as error:
            raise _with_hint(error) from error.__cause__
        if held:
            yield _record_batch(schema, held)

    return encode


def sender(plan: Plan) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def send_all(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        answer = send(plan, _blobs(batches))
        transaction, marker = answer.transaction, answer.marker
        row = (
            transaction.transactional_id, transaction.producer_id, transaction.epoch,
            transaction.version, -1 if marker is None else marker.offset,
            "" if marker is None else marker.metadata, answer.records,
        )  # fmt: skip
        schema = pa.schema(
            [
                ("transactional_id", pa.string()), ("producer_id", pa.int64()),
                ("epoch", pa.int32()), ("version", pa.int32()), ("marker", pa.int64()),
                ("metadata", pa.string()), ("records", pa.int64()),
            ]
        )  # fmt: skip
        yield _record_batch(schema, [row])

    return send_all


def _blobs(batches: Iterable[Any]) -> Iterator[tuple[TopicPartition, bytearray]]:
    for batch in batches:
        topics, partitions = batch.column("topic").to_pylist(), batch.column("partition")
        for topic, partition, blob in zip(
            topics, partitions.to_pylist(), batch.column("blob"), strict=True
        ):
            yield TopicPartition(topic, partition), bytearray(memoryview(blob.as_buffer()))


def _record_batch(schema: Any, rows: list[Any]) -> Any:
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _answer(row: Any) -> Answer:
    transaction = Transaction(row.transactional_id, row.producer_id, row.epoch, row.version)
    marker = None if row.marker < 0 else Committed(row.marker, row.metadata)
    return Answer(transaction, marker, row.records)


# ── columns ──


def prepared(df: DataFrame, topic: str | None) -> DataFrame:
    """The columns that are written, in the types that the encoder takes; others are left out."""
    from pyspark.sql.functions import col

    types = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    if "value" not in types:
        hint = f"the DataFrame has {', '.join(types)}; as in df.selectExpr('to_json(*) AS value')"
        raise ConfigError("value", "there is no such column", hint)
    if topic is None and "topic" not in types:
        raise ConfigError("topic", "is neither given nor a column", "give topic=, or the column")
    chosen = []
    for name, (allowed, wanted) in _COLUMNS.items():
        if name not in types or (name == "topic" and topic is not None):
            continue
        if types[name] not in allowed:
            why = f"the column is {types[name]}"
            raise ConfigError(name, why, f"it has to be {' or '.join(allowed)}")
        chosen.append(col(f"`{name}`").cast(wanted).alias(name))
    return df.select(*chosen)


_HEADER = "array<struct<key:string,value:binary>>"
_COLUMNS = {  # what it may be, and what it is made
    "topic": (("string",), "string"),
    "partition": (("int", "smallint", "tinyint"), "int"),
    "key": (("binary", "string"), "binary"),
    "value": (("binary", "string"), "binary"),
    "headers": ((_HEADER,), _HEADER),
    "timestamp": (("timestamp",), "timestamp"),
}
