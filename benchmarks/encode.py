"""Columns to record batches: ours beside the batch builders of kafka-python and aiokafka.

The records are the first of the real segment. Ours start as columns and are written into the same
buffer again and again; the peers' start as the Python objects that their builders want, made
beforehand. All three make the same batches, and ours are compared byte by byte with kafka-python's.

Columns that come out of a log know their batches. Where records are new they must be cut into
batches first, which the builders do as they go; the rows with `planning` count that too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.measure import By, Measure, race, timed
from benchmarks.registry import Setting
from benchmarks.result import Result, TimesAsFast
from benchmarks.segments import MIB
from sexton.records import Columns, Spans, decode, rows, scan
from sexton.records.encoder import BATCH_BYTES, Encoder

HEAD_BYTES = 64 * MIB  # half a million records
CHUNK_ROWS = 1 << 16  # some 8 MiB, as a chunk of a file
PEER_ROWS = 100_000
LENGTH = slice(8, 12)  # of a batch; base offset and leader epoch around it are the broker's
AFTER_EPOCH = slice(16, None)

Objects = Sequence[tuple[int, bytes | None, bytes | None]]  # timestamp, key, value

GOALS = {"kafka-python": TimesAsFast(100), "aiokafka (C)": None}
BUILDERS = {
    "kafka-python": "kafka.record.default_records",
    "aiokafka (C)": "aiokafka.record.default_records",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How records are cut into batches."""

    name: str
    batch_bytes: int
    batch_rows: int


SHAPES = (
    Shape("100 records a batch", 1 << 20, 100),
    Shape("16 KiB a batch", BATCH_BYTES, 1 << 20),
)


def run(setting: Setting) -> Iterator[Result]:
    head = np.fromfile(setting.segments("none").log, np.uint8, HEAD_BYTES)
    columns = decode(head[: scan(head).end])
    objects: Objects = [
        (record.timestamp, record.key, record.value)
        for record in islice(columns.records(), PEER_ROWS)
    ]
    for shape in SHAPES:
        yield from _compete(setting, shape, columns, objects)


def _compete(
    setting: Setting, shape: Shape, columns: Columns, objects: Objects
) -> Iterator[Result]:
    encoder = Encoder()
    chunks = [planned(shape, columns, start) for start in range(0, len(columns), CHUNK_ROWS)]
    builds = {
        name: partial(build_all, _builder(module), shape, objects)
        for name, module in BUILDERS.items()
    }
    _compare(encoder, chunks[0], builds["kafka-python"]())
    best = race(
        {
            "ours": lambda: timed(lambda: encode_all(encoder, chunks)),
            "with planning": lambda: timed(lambda: plan_and_encode_all(encoder, shape, columns)),
            **{name: partial(_timed_build, build, len(objects)) for name, build in builds.items()},
        },
        By.CPU,
        setting.repeat,
    )
    for name, goal in GOALS.items():
        yield Result("encode", shape.name, By.CPU, best["ours"], name, best[name], goal)
    for name in GOALS:
        case = f"{shape.name}, planning"
        yield Result("encode", case, By.CPU, best["with planning"], name, best[name])


def _builder(module: str) -> Any:
    return import_module(module).DefaultRecordBatchBuilder


def encode_all(encoder: Encoder, chunks: Sequence[Columns]) -> int:
    """Chunk after chunk to batches; how many rows there were."""
    for chunk in chunks:
        encoder.encode(chunk)
    return sum(map(len, chunks))


def plan_and_encode_all(encoder: Encoder, shape: Shape, columns: Columns) -> int:
    for start in range(0, len(columns), CHUNK_ROWS):
        encoder.encode(planned(shape, columns, start))
    return len(columns)


def planned(shape: Shape, columns: Columns, start: int) -> Columns:
    """A chunk of the rows, cut into batches as if they had never been in a log."""
    chosen = slice(start, start + CHUNK_ROWS)
    key, value = (
        Spans(spans.data, spans.position[chosen], spans.length[chosen])
        for spans in (columns.key, columns.value)
    )
    return rows(
        columns.written_timestamp[chosen],
        key,
        value,
        batch_bytes=shape.batch_bytes,
        batch_rows=shape.batch_rows,
    )


def build_all(builder: Any, shape: Shape, objects: Objects) -> list[bytes]:
    """All records through one builder after the other, as both libraries' producers do."""
    batches = []
    batch = builder(2, 0, 0, -1, -1, -1, shape.batch_bytes)
    count = 0
    for timestamp, key, value in objects:
        if count == shape.batch_rows or batch.append(count, timestamp, key, value, []) is None:
            batches.append(batch.build())
            batch = builder(2, 0, 0, -1, -1, -1, shape.batch_bytes)
            batch.append(0, timestamp, key, value, [])
            count = 0
        count += 1
    batches.append(batch.build())
    return batches


def _timed_build(build: Callable[[], list[bytes]], count: int) -> Measure:
    def work() -> int:
        build()
        return count

    return timed(work)


def _compare(encoder: Encoder, chunk: Columns, theirs: list[bytes]) -> None:
    """Batch by batch the same bytes, but for base offset and epoch, which the broker sets.

    The last batch of the shorter side may be cut short; all before it are the same.
    """
    ours = encoder.encode(chunk)
    batches = scan(ours)
    mine = [
        ours[position : position + size].tobytes()
        for position, size in zip(batches.position.tolist(), batches.size.tolist(), strict=True)
    ]
    compared = min(len(mine), len(theirs)) - 1
    assert compared > 0
    for left, right in zip(mine[:compared], theirs[:compared], strict=True):
        assert left[LENGTH] == right[LENGTH], "other lengths"
        assert left[AFTER_EPOCH] == right[AFTER_EPOCH], "other bytes"
