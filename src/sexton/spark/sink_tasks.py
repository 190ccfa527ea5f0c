"""What the sink runs in Spark's tasks: rows to blobs, and blobs to Kafka.

    encoder           many tasks: rows in, finished record batches out, numbered in their order
    sender            one task, or several at once: blobs in, one row out: what was done
    encoding_sender   one task: both of it, for a batch that is small (see `sink_ways`)

Blobs travel from one to the other through Spark's shuffle, as rows of BLOBS; an answer is a row of
ANSWERS. Several senders run in a barrier stage: Spark starts them together or not at all, and ends
all if one fails. The first takes the epoch and reads the marker, and tells the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sexton.base.partitions import TopicPartition
from sexton.client.transacting import Committed, Transaction
from sexton.spark.sink_encoding import Encoding, encoded
from sexton.spark.sink_protocol import Answer, Begun, Plan, begin, deliver, send
from sexton.spark.tasks import settle

BLOBS = "topic string, partition int, source int, number bigint, blob binary"
ANSWERS = (
    "transactional_id string, producer_id bigint, epoch int, version int, "
    "marker bigint, metadata string, records bigint, sender int, late_ms bigint, size bigint"
)
_HELD_BYTES = 8 << 20  # of blobs, until they are given to Spark


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
        held: list[tuple[str, int, int, int, bytearray]] = []
        size = 0
        for number, (at, blob) in enumerate(encoded(encoding, source, batches)):
            held.append((at.topic, at.partition, source, number, blob))
            size += len(blob)
            if size >= _HELD_BYTES:
                yield _record_batch(schema, held)
                held, size = [], 0
        if held:
            yield _record_batch(schema, held)
        settle()

    return encode


def sender(plan: Plan) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def send_all(batches: Iterable[Any]) -> Iterator[Any]:
        blobs = _blobs(batches)
        yield _told(send(plan, blobs) if plan.senders == 1 else _among_others(plan, blobs))
        settle()

    return send_all


def encoding_sender(encoding: Encoding, plan: Plan) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Encoder and sender in one task, with nothing in between."""

    def send_rows(batches: Iterable[Any]) -> Iterator[Any]:
        yield _told(send(plan, encoded(encoding, 0, batches)))
        settle()

    return send_rows


def _told(answer: Answer) -> Any:
    import pyarrow as pa

    transaction, marker = answer.transaction, answer.marker
    row = (
        transaction.transactional_id, transaction.producer_id, transaction.epoch,
        transaction.version, -1 if marker is None else marker.offset,
        "" if marker is None else marker.metadata, answer.records, answer.sender, answer.late_ms,
        answer.size,
    )  # fmt: skip
    schema = pa.schema(
        [
            ("transactional_id", pa.string()), ("producer_id", pa.int64()),
            ("epoch", pa.int32()), ("version", pa.int32()), ("marker", pa.int64()),
            ("metadata", pa.string()), ("records", pa.int64()), ("sender", pa.int32()),
            ("late_ms", pa.int64()), ("size", pa.int64()),
        ]
    )  # fmt: skip
    return _record_batch(schema, [row])


def _among_others(plan: Plan, blobs: Iterator[tuple[TopicPartition, bytearray]]) -> Answer:
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    number = context.partitionId()
    told = context.allGather(_written_down(begin(plan)) if number == 0 else "")
    return deliver(plan, _read(told[0]), blobs, number)


def _written_down(begun: Begun) -> str:
    transaction, marker = begun.transaction, begun.marker
    return json.dumps(
        [
            [transaction.transactional_id, transaction.producer_id, transaction.epoch,
             transaction.version],
            None if marker is None else [marker.offset, marker.metadata],
        ]
    )  # fmt: skip


def _read(told: str) -> Begun:
    transaction, marker = json.loads(told)
    return Begun(Transaction(*transaction), None if marker is None else Committed(*marker))


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


def answer_of(row: Any) -> Answer:
    transaction = Transaction(row.transactional_id, row.producer_id, row.epoch, row.version)
    marker = None if row.marker < 0 else Committed(row.marker, row.metadata)
    return Answer(transaction, marker, row.records, row.sender, row.late_ms, row.size)
