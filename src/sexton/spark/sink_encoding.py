"""Rows of a DataFrame to finished record batches, by partition: the sink's first stage.

    Arrow rows ──▶ which partition ──▶ the rows of each, in order ──▶ record batches, compressed

The batches have no producer yet, so nothing here depends on who will send them or how often this is
run: the same rows give the same bytes. Rows are gathered until there are enough of them that each
partition fills its batches. No batch is larger than its topic takes; one that compression has made
larger is sent as it was.
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
from sexton.records.columns import Columns, Spans, write_headers
from sexton.records.encoder import Encoder, rows
from sexton.records.layout import Codec
from sexton.records.tables import HEADER_TYPE, Array, sizes
from sexton.records.tables import field as header_field
from sexton.spark.background import BackgroundLoop
from sexton.spark.partitioner import partitions_of
from sexton.spark.sink_topics import TopicLimits, topic_limits

CHUNK_BYTES = 16 << 20  # of rows that are sorted by partition at a time
_NO_HEADERS = b"\0"

Blob = tuple[TopicPartition, bytes]


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
    for chunk in _chunks(batches):
        yield from encoder.encode(chunk)


def _chunks(batches: Iterable[Any]) -> Iterator[Any]:
    held: list[Any] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


@dataclass(frozen=True, slots=True)
class _Rows:
    """One chunk as our own columns."""

    key: Spans
    value: Spans
    headers: Spans
    timestamp: Array
    partition: Array  # -1: none was given

    def take(self, some: Array) -> _Rows:
        return _Rows(
            self.key.take(some), self.value.take(some), self.headers.take(some),
            self.timestamp[some], self.partition[some],
        )  # fmt: skip

    @property
    def sizes(self) -> Array:
        size = np.full(len(self.timestamp), 8, np.int64)  # and a few more for what is in between
        for spans in (self.key, self.value, self.headers):
            size += np.maximum(spans.length, 0)
        return size


class _RowEncoder:
    def __init__(self, encoding: Encoding, source: int) -> None:
        self._encoding = encoding
        self._topics = dict(encoding.topics)
        self._next = source + encoding.batch  # where rows without a key go on
        self._encoder = Encoder()

    def encode(self, chunk: Any) -> Iterator[Blob]:
        found = _columns(chunk, self._encoding.now_ms)
        for topic, some in self._by_topic(chunk):
            yield from self._of_topic(topic, found if some is None else found.take(some))

    def _by_topic(self, chunk: Any) -> Iterator[tuple[str, Array | None]]:
        if self._encoding.topic is not None:
            yield self._encoding.topic, None
            return
        column = _column(chunk, "topic")
        if column.null_count:
            hint = "give every row one, or write all to the same with topic="
            raise ConfigError("topic", "a row has none", hint)
        told = column.dictionary_encode()
        indices = told.indices.to_numpy(zero_copy_only=False)
        for number, name in enumerate(told.dictionary.to_pylist()):
            yield name, np.flatnonzero(indices == number)

    def _of_topic(self, topic: str, found: _Rows) -> Iterator[Blob]:
        limits = self._limits(topic)
        partition = self._partitions(topic, found, limits)
        order = np.argsort(partition, kind="stable")
        numbers, starts = np.unique(partition[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
            at = TopicPartition(topic, number)
            for blob in self._of_partition(at, found.take(order[start:end]), limits.most_bytes):
                yield at, blob

    def _limits(self, topic: str) -> TopicLimits:
        if topic not in self._topics:
            with BackgroundLoop() as loop:
                told = topic_limits(self._encoding.kafka, [topic], self._encoding.patience)
                self._topics.update(loop.run(told))
        return self._topics[topic]

    def _partitions(self, topic: str, found: _Rows, limits: TopicLimits) -> Array:
        count, batch_bytes = limits.partitions, self._encoding.batch_bytes
        chosen = partitions_of(found.key, count, found.sizes, batch_bytes, self._next % count)
        self._next += 1
        given = found.partition
        beyond = np.flatnonzero((given < -1) | (given >= count))
        if len(beyond):
            why = f"a row asks for {int(given[beyond[0]])}; the topic {topic} has {count}"
            raise ConfigError(
                "partition", why, "they are numbered from 0; null lets the key decide"
            )
        return np.where(given >= 0, given, chosen)

    def _of_partition(self, at: TopicPartition, found: _Rows, most: int) -> Iterator[bytes]:
        columns = self._planned(found, min(self._encoding.batch_bytes, most), self._encoding.codec)
        first_row = columns.first_row.tolist()
        for number, blob in enumerate(self._blobs(columns)):
            if len(blob) <= most:
                yield blob
                continue
            some = np.arange(first_row[number], first_row[number + 1])
            plain = self._planned(found.take(some), most, Codec.NONE)
            for other in self._blobs(plain) if len(some) > 1 else [blob]:
                if len(other) > most:
                    raise _too_large(at, len(other), most)
                yield other

    def _planned(self, found: _Rows, batch_bytes: int, codec: Codec) -> Columns:
        return rows(
            found.timestamp, found.key, found.value, found.headers,
            batch_bytes=batch_bytes, codec=codec,
        )  # fmt: skip

    def _blobs(self, columns: Columns) -> list[bytes]:
        """One for each batch; every one counts its offsets from 0, as in a producer."""
        starts = columns.first_row[:-1]
        if len(starts) > 1:
            columns = _from_zero(columns)
        data = self._encoder.encode(columns).tobytes()
        found, place = [], 0
        for _ in range(len(starts)):
            size = int(sizes(np.frombuffer(data, HEADER_TYPE, 1, place))[0])
            found.append(data[place : place + size])
            place += size
        return found


def _from_zero(columns: Columns) -> Columns:
    base = np.repeat(
        header_field(columns.headers_of_batches, "base_offset"), np.diff(columns.first_row)
    )
    table = columns.headers_of_batches.copy()
    table["base_offset"] = 0
    return Columns(
        table, columns.first_row, columns.offset - base, columns.written_timestamp,
        columns.key, columns.value, columns.headers,
    )  # fmt: skip


def _too_large(at: TopicPartition, size: int, most: int) -> ConfigError:
    why = f"takes {size} bytes, and max.message.bytes of the topic is {most}"
    return ConfigError(f"a record for {at}", why, "raise it, or write smaller values")


# ── Arrow to our own columns ──


def _columns(chunk: Any, now_ms: int) -> _Rows:
    count, names = chunk.num_rows, chunk.column_names
    return _Rows(
        _spans(_column(chunk, "key")) if "key" in names else _nulls(count),
        _spans(_column(chunk, "value")),
        _headers(_column(chunk, "headers")) if "headers" in names else _same(_NO_HEADERS, count),
        _timestamps(chunk, now_ms),
        _numbers(_column(chunk, "partition")) if "partition" in names else np.full(count, -1),
    )


def _column(chunk: Any, name: str) -> Any:
    column = chunk.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _spans(column: Any) -> Spans:
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    _validity, offsets, data = column.buffers()
    first = column.offset
    ends = np.frombuffer(offsets, np.int32)[first : first + len(column) + 1]
    held = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    return Spans.from_offsets(held, ends, valid)


def _nulls(count: int) -> Spans:
    nothing = np.zeros(1, np.uint8)
    return Spans(nothing, np.zeros(count, np.int32), np.full(count, -1, np.int32))


def _same(item: bytes, count: int) -> Spans:
    data = np.frombuffer(item, np.uint8)
    return Spans(data, np.zeros(count, np.int32), np.full(count, len(item), np.int32))


def _headers(column: Any) -> Spans:
    if column.null_count == len(column):
        return _same(_NO_HEADERS, len(column))
    return Spans.from_list([_section(told) for told in column.to_pylist()])


def _section(told: list[dict[str, Any] | None] | None) -> bytes:
    if not told:
        return _NO_HEADERS
    if any(each is None or each["key"] is None for each in told):
        raise ConfigError("headers", "a header has no key", "null is allowed for its value only")
    return write_headers((each["key"], each["value"]) for each in told if each is not None)


def _timestamps(chunk: Any, now_ms: int) -> Array:
    if "timestamp" not in chunk.column_names:
        return np.full(chunk.num_rows, now_ms, np.int64)
    column = _column(chunk, "timestamp").cast(pa.int64())
    told = column.fill_null(now_ms * 1000).to_numpy(zero_copy_only=False)
    if (told < 0).any():
        raise ConfigError("timestamp", "lies before 1970", "Kafka has no such timestamps")
    found: Array = told // 1000
    return found


def _numbers(column: Any) -> Array:
    found: Array = column.fill_null(-1).to_numpy(zero_copy_only=False)
    return found
