"""How large is this log, what is in it, and how much of it would cleaning remove?

Sums over batches and records, chunk by chunk in threads, joined in log order. Keys are counted by
their hashes (see `distinct`), so the memory does not grow with the log.

The dirty ratio is Kafka's own, by which its cleaner picks a log: bytes after the cleaner's
checkpoint over all bytes, the active segment left out. Without that checkpoint nobody knows what
was cleaned; then the share of records whose key comes again is given, and said to be that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np

from sexton.base.findings import Finding
from sexton.log.inspect.distinct import DistinctKeys, hashes, sorted_once
from sexton.log.inspect.paths import PartitionFiles, SegmentFile
from sexton.log.inspect.reading import Advance, Chunk, Done, Part, decoded, work_through
from sexton.log.inspect.reporting import Reporter
from sexton.log.inspect.segment_checks import judge_tail
from sexton.log.inspect.table import BatchTable, Damage, TableBuilder
from sexton.log.inspect.transactions import TransactionTracker
from sexton.records import BadBatch, Codec, Decoder, tables
from sexton.records.layout import CODEC_MASK, DELETE_HORIZON, HEADER_BYTES, NO_TIMESTAMP
from sexton.records.tables import Array


@dataclass(slots=True)
class Totals:
    """Sums over a segment or a partition. Every field adds up, or is the least or largest."""

    bytes: int = 0
    batches: int = 0
    records: int = 0  # data records
    control_records: int = 0
    emptied_batches: int = 0
    tombstones: int = 0
    null_keys: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    stored_bytes: int = 0  # of the records of compressed batches, as they lie in the file
    inflated_bytes: int = 0  # the same records without compression
    horizons: int = 0  # batches with a delete horizon
    codecs: Counter[str] = field(default_factory=Counter)  # batches
    least: dict[str, int] = field(default_factory=dict)  # offset, timestamp, horizon
    largest: dict[str, int] = field(
        default_factory=dict
    )  # offset, timestamp, horizon, batch, record

    def add(self, other: Totals) -> None:
        for name in (f.name for f in fields(Totals) if f.type == "int"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.codecs.update(other.codecs)
        for name, value in other.least.items():
            self.least[name] = min(value, self.least.get(name, value))
        for name, value in other.largest.items():
            self.largest[name] = max(value, self.largest.get(name, value))

    def note(self, name: str, values: Array, *, least: bool = True) -> None:
        if len(values):
            if least:
                self.least[name] = min(int(values.min()), self.least.get(name, int(values.min())))
            self.largest[name] = max(int(values.max()), self.largest.get(name, int(values.max())))

    @property
    def bytes_per_record(self) -> float | None:
        return round(self.bytes / self.records, 1) if self.records else None

    @property
    def compression_ratio(self) -> float | None:
        """Of the compressed batches: how many times larger their records are without it."""
        return round(self.inflated_bytes / self.stored_bytes, 2) if self.stored_bytes else None


@dataclass(slots=True)
class LogStats:
    """One partition."""

    partition: str
    totals: Totals
    segments: list[tuple[SegmentFile, Totals]]
    keys: int = 0
    keys_exact: bool = True
    producers: int = 0
    committed: int = 0
    aborted: int = 0
    open_transactions: int = 0
    transactions_in_doubt: int = 0  # those that may have ended in a batch that cannot be read
    last_stable_offset: int | None = None  # None: empty, or something could not be read
    dirty_ratio: float | None = None
    dirty_by: str | None = None  # what the ratio was worked out from

    @property
    def records_per_key(self) -> float | None:
        keyed = self.totals.records - self.totals.null_keys
        return round(keyed / self.keys, 2) if self.keys else None


def stats(
    partition: PartitionFiles,
    report: Callable[[Finding], None],
    skip: Callable[[str, str], None],
    *,
    advance: Advance = lambda _count: None,
    workers: int | None = None,
) -> LogStats:
    """Counts everything; what cannot be read is reported and left out of the sums."""
    reporter = Reporter(report, skip)
    result = LogStats(partition.name, Totals(), [])
    keys, producers, transactions = DistinctKeys(), set[int](), TransactionTracker()
    segment, damage = Totals(), Damage()
    for step in work_through(partition.segments, _count, advance, workers):
        if isinstance(step, Done):
            seen = step.result
            segment.add(seen.totals)
            keys.add(seen.hashes)
            producers.update(seen.producers)
            for position, bad in seen.bad:
                reporter.bad_batch(step.segment.path, position, bad)
            damage.carry(seen.table, np.array([position for position, _ in seen.bad], np.int64))
            for stretch in seen.table.stretches():
                transactions.add(stretch)
        else:
            file, tail = step
            active = partition.is_active(file)
            judge_tail(file, tail, reporter, active=active)
            damage.pending |= not tail.is_sound and not (active and tail.kind == "torn")
            result.segments.append((file, segment))
            result.totals.add(segment)
            segment = Totals()
    if damage.pending:
        transactions.lose_sight()
    reporter.finish()
    result.keys, result.keys_exact = keys.count, keys.is_exact
    result.producers = len(producers)
    result.committed, result.aborted = transactions.committed, transactions.aborted
    result.open_transactions = len(transactions.open)
    result.transactions_in_doubt = len(transactions.in_doubt)
    if "offset" in result.totals.largest:
        result.last_stable_offset = transactions.last_stable(result.totals.largest["offset"] + 1)
    result.dirty_ratio, result.dirty_by = _dirty_ratio(partition, result)
    return result


@dataclass(frozen=True, slots=True)
class _Counted:
    totals: Totals
    table: BatchTable
    hashes: Array  # of the keys of this chunk, each once
    producers: list[int]
    bad: list[tuple[int, BadBatch]]


def _count(segment: SegmentFile, chunk: Chunk, decoder: Decoder) -> _Counted:
    totals, key_hashes = Totals(), [np.empty(0, np.uint64)]
    builder = TableBuilder(chunk)
    for part in decoded(chunk, decoder, str(segment.path)):
        builder.add(part)
        key_hashes.append(_count_records(part, totals))
    table = builder.table()
    _count_batches(table, totals, chunk)
    unique = sorted_once(np.concatenate(key_hashes))
    producers = np.unique(table.producer[table.producer >= 0]).tolist()
    return _Counted(totals, table, unique, producers, builder.bad)


def _count_records(part: Part, totals: Totals) -> Array:
    """Adds the records of a part to the totals; returns the hashes of their keys."""
    columns = part.columns
    _count_compression(part, totals)
    control = columns.is_control
    data = ~control
    key, value = columns.key, columns.value
    totals.records += int(data.sum())
    totals.control_records += int(control.sum())
    has_key = data & (key.length >= 0)
    totals.null_keys += int((data & (key.length < 0)).sum())
    totals.tombstones += int((has_key & (value.length < 0)).sum())
    sizes = [np.maximum(s.length, 0) for s in (key, value)]
    totals.key_bytes += int(sizes[0][data].sum(dtype=np.int64))
    totals.value_bytes += int(sizes[1][data].sum(dtype=np.int64))
    time = columns.timestamp
    totals.note("timestamp", time[data & (time != NO_TIMESTAMP)])
    largest = (sizes[0].astype(np.int64) + sizes[1] + columns.headers.length)[data]
    totals.note("record", largest, least=False)
    return hashes(key.take(has_key))


def _count_compression(part: Part, totals: Totals) -> None:
    """All records of a part are in one buffer, inflated, and the uncompressed ones as they are."""
    headers = part.columns.headers_of_batches
    packed = tables.field(headers, "attributes") & CODEC_MASK != 0
    if packed.any():
        stored = tables.sizes(headers) - HEADER_BYTES
        totals.stored_bytes += int(stored[packed].sum())
        totals.inflated_bytes += len(part.columns.key.data) - int(stored[~packed].sum())


def _count_batches(table: BatchTable, totals: Totals, chunk: Chunk) -> None:
    totals.bytes += chunk.batches.end
    totals.batches += len(table)
    totals.emptied_batches += int((table.count == 0).sum())
    totals.note("offset", table.base)
    totals.note("offset", table.last)
    totals.note("batch", table.size, least=False)
    horizon = tables.field(chunk.batches.headers, "base_timestamp")
    dated = tables.field(chunk.batches.headers, "attributes") & DELETE_HORIZON != 0
    totals.horizons += int(dated.sum())
    totals.note("horizon", horizon[dated])
    codec, count = np.unique(table.attributes & CODEC_MASK, return_counts=True)
    for number, batches in zip(codec.tolist(), count.tolist(), strict=True):
        totals.codecs[Codec(number).name.lower()] += batches


def _dirty_ratio(partition: PartitionFiles, result: LogStats) -> tuple[float | None, str | None]:
    if partition.whole and partition.cleaned_to is not None and len(result.segments) > 1:
        dirty = clean = 0
        for segment, totals in result.segments[:-1]:  # the cleaner leaves the active one alone
            if (segment.base_offset or 0) >= partition.cleaned_to:
                dirty += totals.bytes
            else:
                clean += totals.bytes
        return (round(dirty / (dirty + clean), 3) if dirty + clean else None), "cleaner checkpoint"
    keyed = result.totals.records - result.totals.null_keys
    if keyed:
        return round(max(1 - result.keys / keyed, 0.0), 3), "repeated keys"
    return None, None
