"""Records into a Parquet file, from columns to columns.

A block's keys and values are spans over one buffer; Arrow wants them end to end with their offsets.
One kernel call makes them so. Only headers become Python objects, and only where there are any.

The file appears under its name when it is complete: one that was stopped half way would have no
footer, and no reader could open it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sexton.base.digests import digest
from sexton.base.errors import cannot_be_written
from sexton.base.extras import need
from sexton.log.inspect.blocks import Block
from sexton.log.inspect.dump import control_record
from sexton.log.inspect.outcomes import NAMES
from sexton.log.inspect.rendering import Rendering
from sexton.log.inspect.transactions import NOWHERE
from sexton.records import Codec, Columns, Spans
from sexton.records.columns import read_headers
from sexton.records.layout import CODEC_MASK, LOG_APPEND_TIME, NO_SEQUENCE
from sexton.records.tables import Array, field

ROW_GROUP = 1 << 20  # rows


def write_parquet(
    target: Path, blocks: Iterable[Block], keys: Rendering, values: Rendering, limit: int | None
) -> int:
    """Writes the selected rows of all blocks; returns how many.

    Keys and values are kept as bytes, unless their rendering is `digest` or `none`.
    """
    pa, pq = _arrow()
    unfinished = target.with_name(f"{target.name}.unfinished")
    schema, written = _schema(pa), 0
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for block in blocks:
                rows = block.record_rows()
                if limit is not None:
                    rows = rows[: limit - written]
                if len(rows):
                    arrays = _arrays(pa, block, rows, keys, values)
                    table = pa.Table.from_arrays(arrays, schema=schema)
                    writer.write_table(table, row_group_size=ROW_GROUP)
                    written += len(rows)
                if limit is not None and written >= limit:
                    break
        unfinished.replace(target)
    except OSError as error:
        # Arrow's own sentence names the unfinished file, of which nobody has heard.
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        raise cannot_be_written(str(target), why) from None
    finally:
        unfinished.unlink(missing_ok=True)
    return written


def _arrow() -> tuple[Any, Any]:
    need("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa, pq


def _schema(pa: Any) -> Any:
    word = pa.dictionary(pa.int32(), pa.string())
    header = pa.struct([("name", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("partition", word),
            ("segment", word),
            ("position", pa.int64()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("timestamp_type", word),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
            ("producer_id", pa.int64()),
            ("producer_epoch", pa.int16()),
            ("sequence", pa.int32()),
            ("leader_epoch", pa.int32()),
            ("codec", word),
            ("transactional", pa.bool_()),
            ("outcome", word),
            ("marker_offset", pa.int64()),
            ("control", word),
            ("coordinator_epoch", pa.int32()),
        ]
    )


def _arrays(pa: Any, block: Block, rows: Array, keys: Rendering, values: Rendering) -> list[Any]:
    columns = block.columns
    batch = columns.batch[rows]

    def of_batch(name: str) -> Array:
        return field(columns.headers_of_batches, name)[batch]

    attributes, producer = of_batch("attributes"), of_batch("producer_id")
    sequence, epoch = of_batch("base_sequence"), of_batch("partition_leader_epoch")
    ahead = columns.offset[rows] - of_batch("base_offset")
    following = (sequence.astype(np.int64) + ahead) & 0x7FFFFFFF
    codecs = {int(codec): codec.name.lower() for codec in Codec}
    kinds = {0: "CreateTime", LOG_APPEND_TIME: "LogAppendTime"}
    transactional = columns.is_transactional[rows]
    return [
        _constant(pa, block.partition, len(rows)),
        _constant(pa, block.segment.path.name, len(rows)),
        pa.array(block.position[batch]),
        pa.array(columns.offset[rows]),
        pa.array(columns.timestamp[rows], pa.int64()).cast(pa.timestamp("ms", "UTC")),
        _words(pa, attributes & LOG_APPEND_TIME, kinds),
        _binary(pa, columns.key.take(rows), keys),
        _binary(pa, columns.value.take(rows), values),
        _headers(pa, columns.headers.take(rows)),
        pa.array(producer, mask=producer < 0),
        pa.array(of_batch("producer_epoch"), mask=producer < 0),
        pa.array(following.astype(np.int32), mask=sequence == NO_SEQUENCE),
        pa.array(epoch, mask=epoch < 0),
        _words(pa, attributes & CODEC_MASK, codecs),
        pa.array(transactional),
        _words(pa, block.outcome[batch], NAMES),
        pa.array(block.marker[batch], mask=block.marker[batch] == NOWHERE),
        *_controls(pa, columns, rows),
    ]


def _constant(pa: Any, word: str, count: int) -> Any:
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [word])


def _words(pa: Any, codes: Array, names: dict[int, str]) -> Any:
    """Codes as words; a code without a word is null."""
    numbers = np.array(sorted(names))
    row = np.minimum(np.searchsorted(numbers, codes), len(numbers) - 1).astype(np.int32)
    indices = pa.array(row, mask=numbers[row] != codes)
    return pa.DictionaryArray.from_arrays(indices, [names[n] for n in sorted(names)])


def _binary(pa: Any, spans: Spans, rendering: Rendering) -> Any:
    if rendering is Rendering.none:
        return pa.nulls(len(spans), pa.binary())
    if rendering is Rendering.digest:
        hidden = [None if data is None else digest(data).encode() for data in spans.to_list()]
        return pa.array(hidden, pa.binary())
    from sexton.log.key_kernels import gather_spans
    from sexton.records.native import address

    length, position = np.ascontiguousarray(spans.length), np.ascontiguousarray(spans.position)
    ends = np.cumsum(np.maximum(length, 0), dtype=np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), ends]).astype(np.int32)
    data = np.empty(int(offsets[-1]), np.uint8)
    gather_spans(address(spans.data), address(position), address(length), len(spans), address(data))
    validity = np.packbits(length >= 0, bitorder="little")
    buffers = [pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(spans), buffers)


def _headers(pa: Any, spans: Spans) -> Any:
    lists: list[list[dict[str, object]]] = [[] for _ in range(len(spans))]
    for row in np.flatnonzero(spans.length > 1).tolist():
        lists[row] = [{"name": name, "value": value} for name, value in read_headers(spans[row])]
    return pa.array(lists, pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())])))


def _controls(pa: Any, columns: Columns, rows: Array) -> tuple[Any, Any]:
    """What the control records among the rows say, and the epoch of the coordinator."""
    names: list[str | None] = [None] * len(rows)
    epochs: list[int | None] = [None] * len(rows)
    for row in np.flatnonzero(columns.is_control[rows]).tolist():
        at = int(rows[row])
        control = control_record(columns.key[at], columns.value[at])
        names[row], epochs[row] = control.name, control.coordinator_epoch
    return pa.array(names, pa.string()).dictionary_encode(), pa.array(epochs, pa.int32())
