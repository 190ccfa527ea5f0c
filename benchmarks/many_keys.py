"""A log of many keys, written by our own encoder because Kafka's producer would take an hour.

Records look like those of `java/Fill.java`: keys of 16 digits, one of 200,000 values of 100 bytes,
batches of 16 KiB, segments of 1 GiB with the indexes a broker would have written. Every key is
there at least once, the rest of the records have random keys, and all of them are shuffled.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.segments import GIB, Segments
from sexton.log.real_disk import RealDisk
from sexton.log.segment_writer import SegmentWriter
from sexton.records import Spans, rows
from sexton.records.encoder import Encoder
from sexton.records.tables import Array
from sexton.testing.kafka_jars import cache_directory, one_at_a_time

_PARTITION = "bench-0"
_KEY_BYTES, _VALUE_BYTES, _VALUES = 16, 100, 200_000
_CHUNK_ROWS = 1 << 18
_START_MS = 1_760_000_000_000
_STATES, _CITIES = ("active", "closed", "pending"), ("Springfield", "Riverside", "Georgetown")


def many_keys(keys: int, records: int) -> Segments:
    """The log, from the cache or made now."""
    assert keys <= records
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    home = cache_directory() / "benchmarks"
    target = home / f"ours-{keys}-keys-{records}-records-{digest}"
    with one_at_a_time(home / f"{target.name}.making"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=home, prefix="new.") as scratch:
                made = Path(scratch, "made")
                (made / _PARTITION).mkdir(parents=True)
                _make(made, keys, records)
                made.rename(target)
    return Segments(target / _PARTITION, "none")


def _make(target: Path, keys: int, records: int) -> None:
    sys.stderr.write(f"benchmarks: writing {records} records of {keys} keys\n")
    start = perf_counter()
    random = np.random.default_rng(1)
    extra = random.integers(0, keys, records - keys, np.uint32)
    numbers = random.permutation(np.concatenate([np.arange(keys, dtype=np.uint32), extra]))
    values = _values(random)
    encoder = Encoder()
    writer: SegmentWriter | None = None
    for first in range(0, records, _CHUNK_ROWS):
        part = _part(encoder, numbers[first : first + _CHUNK_ROWS], values, first, random)
        if writer is None or writer.segment.size + len(part) > GIB:
            if writer is not None:
                writer.finish([])
            writer = SegmentWriter(RealDisk(target), _PARTITION, first, 0, 4096, "")
        writer.append(part)
    assert writer is not None
    writer.finish([])
    epochs = target / _PARTITION / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n0 0\n", encoding="ascii")
    sys.stderr.write(f"benchmarks: they are kept; that took {perf_counter() - start:.0f} s\n")


def _part(
    encoder: Encoder, numbers: Array, values: Array, first: int, random: np.random.Generator
) -> Array:
    count = len(numbers)
    digits = np.full((count, _KEY_BYTES), ord("0"), np.uint8)
    left = numbers.copy()
    for place in range(_KEY_BYTES - 1, _KEY_BYTES - 11, -1):  # 32 bits have ten digits
        digits[:, place] += (left % 10).astype(np.uint8)
        left //= 10
    at = np.arange(count, dtype=np.int32) * _KEY_BYTES
    key = Spans(digits.reshape(-1), at, np.full(count, _KEY_BYTES, np.int32))
    chosen = random.integers(0, _VALUES, count, np.int32) * _VALUE_BYTES
    value = Spans(values, chosen, np.full(count, _VALUE_BYTES, np.int32))
    times = _START_MS + np.arange(first, first + count, dtype=np.int64) // 100
    columns = rows(times, key, value, base_offset=first)
    columns.headers_of_batches["partition_leader_epoch"] = 0
    return encoder.encode(columns)


def _values(random: np.random.Generator) -> Array:
    """One after the other in one buffer, as Fill.java makes them."""
    texts = []
    for user, state, whole, cents, city, updated in zip(
        random.integers(0, 10_000_000, _VALUES).tolist(),
        random.integers(0, 3, _VALUES).tolist(),
        random.integers(0, 100_000, _VALUES).tolist(),
        random.integers(0, 100, _VALUES).tolist(),
        random.integers(0, 3, _VALUES).tolist(),
        random.integers(1_700_000_000, 1_800_000_000, _VALUES).tolist(),
        strict=True,
    ):
        text = (
            f'{{"user":{user},"state":"{_STATES[state]}","balance":{whole}.{cents:02d},'
            f'"city":"{_CITIES[city]}","updated":{updated}}}'
        )
        texts.append(text.encode().ljust(_VALUE_BYTES)[:_VALUE_BYTES])
    return np.frombuffer(b"".join(texts), np.uint8)
