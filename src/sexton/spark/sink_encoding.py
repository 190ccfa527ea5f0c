"""Rows of a DataFrame to finished record batches, by partition: the sink's first stage.

    Arrow rows ──▶ the open batch of their partition ──▶ full ones, compressed

The batches have no producer yet, so nothing here depends on who will send them or how often this is
run: the same rows give the same bytes. No batch is larger than its topic takes; one that
compression has made larger is sent as it was.

A row goes where Kafka's Java client would send it: to the partition it names, or the one of its
key. Rows without a key may go anywhere: they stay together until they fill a batch, then go on to
the next partition (KIP-480). Where they begin is up to the task and the number of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.client.retrying import Patience
from sexton.records.encoder import compressed
from sexton.records.layout import NO_TIMESTAMP, Codec
from sexton.records.open_batches import Full, NewRows, NoPartition, OpenBatches, Strings
from sexton.records.tables import Array
from sexton.spark.background import BackgroundLoop
from sexton.spark.sink_protocol import Blob
from sexton.spark.sink_topics import TopicLimits, topic_limits

NO_PARTITION = -1  # in place of null


@dataclass(frozen=True, slots=True)
class Encoding:
    """What every encoding task is told."""

    kafka: Mapping[str, str] = field(repr=False)  # may hold a password
    topic: str | None  # None: the column says which
    topics: Mapping[str, TopicLimits]  # as far as the driver knows them
    codec: Codec
    batch_bytes: int
    now_ms: int  # the timestamp of rows that have none
    batch: int  # its number, which decides where rows without a key begin
    patience: Patience


def encoded(encoding: Encoding, source: int, batches: Iterable[Any]) -> Iterator[Blob]:
    """The batches of one task, in the order in which a partition has to get them."""
    encoder = _RowEncoder(encoding, source)
    for batch in batches:
        if batch.num_rows:
            yield from encoder.encode(batch)
    yield from encoder.rest()


class _RowEncoder:
    def __init__(self, encoding: Encoding, source: int) -> None:
        self._encoding = encoding
        self._limits = dict(encoding.topics)
        self._turn = source + encoding.batch
        self._open = OpenBatches()
        self._numbers: dict[str, int] = {}  # of topics that were written to
        self._names: list[str] = []
        if encoding.topic is not None:
            self._number(encoding.topic)

    def encode(self, batch: Any) -> Iterator[Blob]:
        topics = self._topics(batch) if self._encoding.topic is None else None
        rows = new_rows(batch, self._encoding.now_ms, topics)
        try:
            for full in self._open.append(rows):
                yield self._finished(full)
        except NoPartition as error:
            name = self._names[error.topic]
            why = f"a row asks for {error.partition}; the topic {name} has {error.partitions}"
            hint = "they are numbered from 0; null lets the key decide"
            raise ConfigError("partition", why, hint) from None

    def rest(self) -> Iterator[Blob]:
        for full in self._open.rest():
            yield self._finished(full)

    def _finished(self, full: Full) -> Blob:
        at, batch = TopicPartition(self._names[full.topic], full.partition), full.batch
        most = self._limits[at.topic].most_bytes
        codec = self._encoding.codec
        if codec is not Codec.NONE:
            packed = compressed(batch, codec)
            if len(packed) <= most:
                return at, packed
        if len(batch) > most:
            raise _too_large(at, len(batch), most)
        return at, bytearray(batch)

    # ── topics ──

    def _topics(self, batch: Any) -> Array:
        """For each row the number of its topic."""
        column = _column(batch, "topic")
        if column.null_count:
            hint = "give every row one, or write all to the same with topic="
            raise ConfigError("topic", "a row has none", hint)
        told = column.dictionary_encode()
        numbers = np.array([self._number(name) for name in told.dictionary.to_pylist()], np.int32)
        found: Array = numbers[told.indices.to_numpy(zero_copy_only=False)]
        return found

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            limits = self._found(name)
            most = min(self._encoding.batch_bytes, limits.most_bytes)
            self._numbers[name] = self._open.add_topic(
                limits.partitions, most, turn=self._turn, per_turn=self._encoding.batch_bytes
            )
            self._names.append(name)
        return self._numbers[name]

    def _found(self, topic: str) -> TopicLimits:
        if topic not in self._limits:
            with BackgroundLoop() as loop:
                told = topic_limits(self._encoding.kafka, [topic], self._encoding.patience)
                self._limits.update(loop.run(told))
        return self._limits[topic]


def _too_large(at: TopicPartition, size: int, most: int) -> ConfigError:
    why = f"takes {size} bytes, and max.message.bytes of the topic is {most}"
    return ConfigError(f"a record for {at}", why, "raise it, or write smaller values")


# ── Arrow to arrays; nothing is copied where Arrow has it as we want it ──


def new_rows(batch: Any, now_ms: int, topics: Array | None) -> NewRows:
    names, count = batch.schema.names, batch.num_rows
    headers = _column(batch, "headers") if "headers" in names else None
    with_headers = _headers(headers) if headers is not None and len(headers.values) else ()
    return NewRows(
        _strings(_column(batch, "key")) if "key" in names else Strings.nulls(count),
        _strings(_column(batch, "value")),
        now_ms,
        _timestamps(_column(batch, "timestamp"), now_ms) if "timestamp" in names else None,
        _partitions(_column(batch, "partition")) if "partition" in names else None,
        topics,
        *with_headers,
    )


def _column(batch: Any, name: str) -> Any:
    column = batch.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _strings(column: Any) -> Strings:
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    valid, ends, data = column.buffers()
    first = column.offset
    return Strings(
        np.frombuffer(data, np.uint8) if data else np.zeros(1, np.uint8),
        np.frombuffer(ends, np.int32)[first : first + len(column) + 1],
        np.frombuffer(valid, np.uint8) if column.null_count else None,
        first,
    )


def _headers(column: Any) -> tuple[Array, Strings, Strings]:
    """Where those of each row begin, their keys, their values."""
    if column.null_count and np.diff(column.offsets)[column.is_null().to_numpy(False)].any():
        column = pa.array(column.to_pylist(), column.type)  # it has items where it says null
    first = np.ascontiguousarray(column.offsets.to_numpy(), np.int32)
    pairs = column.values
    keys = pairs.field("key")
    told = slice(int(first[0]), int(first[-1]))
    if pairs[told].null_count or keys[told].null_count:
        raise ConfigError("headers", "a header has no key", "null is allowed for its value only")
    assert told.start >= 0 and told.stop <= len(pairs) and (np.diff(first) >= 0).all()
    return first, _strings(keys), _strings(pairs.field("value"))


def _timestamps(column: Any, now_ms: int) -> Array:
    column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    found: Array = column.fill_null(now_ms * 1000).to_numpy(zero_copy_only=False) // 1000
    if (found < NO_TIMESTAMP).any():
        raise ConfigError("timestamp", "lies before 1970", "Kafka has no such timestamps")
    return found


def _partitions(column: Any) -> Array:
    column = column.cast(pa.int32())
    if (column.drop_null().to_numpy(zero_copy_only=False) == NO_PARTITION).any():
        hint = "they are numbered from 0; null lets the key decide"
        raise ConfigError("partition", f"a row asks for {NO_PARTITION}", hint)
    found = column.fill_null(NO_PARTITION).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(found)
