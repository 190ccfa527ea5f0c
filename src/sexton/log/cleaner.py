"""One cleaning pass over one log: read it, decide, write what stays, put it in place.

    plan      forward over the headers: the fate of each batch (`cleaner_rules`)
    mark      backward over the records, chunk by chunk, with the set of keys met so far
    gather    what stays of a chunk, while it is still in the CPU's cache
    swap      group by group, oldest first: a tombstone must not be gone before what it buries is

A pass covers a prefix of the log and does not change an offset. It writes new files beside the old
ones and syncs them before they take their place, so a crash at any moment leaves each segment
either as it was or cleaned (`recovery` finishes a swap that was under way). The log itself is
synced first: what goes, goes because of records that must not be lost afterwards.

The set of keys starts small. If it fills up, the pass starts over with one that is large enough; if
that would be larger than allowed, keys are dealt with in parts, one reading of the log each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.log import cleaner_kernels as kernels
from sexton.log.cleaner_rules import Bounds, LastBatches, Transactions, fates
from sexton.log.indexes import AbortedTransaction
from sexton.log.names import CLEANED, LOG, SNAPSHOT, SWAP, parse_segment_file
from sexton.log.partition import PartitionLog
from sexton.log.segment import MOST_RELATIVE_OFFSET, Segment
from sexton.records.codecs import inflate
from sexton.records.control import ControlRecord, first_control_record
from sexton.records.decoder import Batches, first_bad_crc, scan
from sexton.records.encoder import compressed
from sexton.records.kernels import GUARD
from sexton.records.layout import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    MIN_RECORD_BYTES,
    BatchHeader,
    headers_in,
)
from sexton.records.native import address
from sexton.records.tables import Array, last_offsets
from sexton.records.tables import field as column

CHUNK_BYTES = 4 << 20  # read, judged and written at once: small enough to stay in the cache
FIRST_SLOTS = 1 << 21  # 16 MiB: room for 1.6 million keys before a pass has to start over
MOST_FULL = 0.8  # of the set's slots: 10 bytes a key when it is as full as it gets
SET_BYTES = 128 << 20  # Kafka's log.cleaner.dedupe.buffer.size


@dataclass(slots=True)
class Tally:
    """What a pass read, kept and removed, and why."""

    records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    superseded: int = 0  # a later record of the same key is there
    aborted: int = 0
    tombstones: int = 0
    markers: int = 0
    without_key: int = 0
    empty_batches: int = 0  # batches removed whole that held no record
    readings: int = 1  # how often the log was read


@dataclass(frozen=True, slots=True)
class Waiting:
    """Witnesses and empty batches that stay for now, each with its offset: work for a later pass.

    A marker without a time has yet to be given its delete horizon.
    """

    tombstones: list[tuple[int, int]] = field(default_factory=list)  # (horizon, offset)
    markers: list[tuple[int | None, int]] = field(default_factory=list)
    empty: list[tuple[int, int]] = field(default_factory=list)  # (producer id, last offset)


@dataclass(frozen=True, slots=True)
class Cleaned:
    end: int  # every batch below has been through this pass
    tally: Tally
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class CleanerOptions:
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    set_bytes: int = SET_BYTES
    seed: int = 0  # of the hash; draw it at random in production
    dry_run: bool = False


def clean(log: PartitionLog, bounds: Bounds, options: CleanerOptions) -> Cleaned:
    """Cleans [0, bounds.end) of the log. The caller has made sure that the bounds are safe."""
    assert bounds.end <= log.last_stable_offset
    assert bounds.end <= log.active.base_offset
    if not options.dry_run:
        log.flush(bounds.now_ms)
    segments = [s for s in log.segments[:-1] if s.base_offset < bounds.end]
    plan = _plan(log, segments, bounds)
    groups = _grouped(segments, log)
    output = _Pass(bounds, options, plan).run()
    if not options.dry_run:
        _swap_all(log, groups, output, bounds)
    return Cleaned(bounds.end, output.tally, _waiting(output, bounds))


def _waiting(output: _Output, bounds: Bounds) -> Waiting:
    waiting = Waiting()
    for part in (part for parts in output.parts for part in reversed(parts)):
        table = scan(part).headers
        marked = column(table, "attributes") & (CONTROL | DELETE_HORIZON) != 0
        marked |= column(table, "records_count") == 0
        for row in table[marked & (column(table, "base_offset") < bounds.end)]:
            header = BatchHeader.unpack(row.tobytes())
            if header.records_count == 0:
                waiting.empty.append((header.producer_id, header.last_offset))
            elif header.is_control:
                waiting.markers.append((header.delete_horizon_ms, header.last_offset))
            elif header.delete_horizon_ms is not None:
                waiting.tombstones.append((header.delete_horizon_ms, header.base_offset))
    return waiting


# ── plan ──


@dataclass(frozen=True, slots=True)
class _Chunk:
    segment: int
    start: int  # position in the segment's file
    end: int
    fates: Array
    records: int


@dataclass(frozen=True, slots=True)
class _Plan:
    segments: list[Segment]
    chunks: list[_Chunk]
    aborted: list[list[AbortedTransaction]]  # what each segment's cleaned index keeps
    records: int


def _plan(log: PartitionLog, segments: list[Segment], bounds: Bounds) -> _Plan:
    """Walks the headers of all batches, first to last."""
    entries = sorted(
        (e for segment in segments for e in segment.aborted), key=lambda e: e.first_offset
    )
    transactions = Transactions(entries)
    last_batches = LastBatches.of(log.producers)
    chunks: list[_Chunk] = []
    kept_entries = []
    following = [segment.base_offset for segment in log.segments[1:]]
    for number, segment in enumerate(segments):
        transactions.retained = []
        reached = segment.base_offset
        for start, batches in _chunks(segment):
            reached = _in_order(batches, reached, following[number], segment.path(LOG))
            markers = list(_control_records(segment, batches))
            fate = fates(batches.headers, markers, transactions, last_batches, bounds)
            records = int(column(batches.headers, "records_count").sum(dtype=np.int64))
            chunks.append(_Chunk(number, start, start + batches.end, fate, records))
        kept_entries.append(transactions.retained)
    return _Plan(segments, chunks, kept_entries, sum(chunk.records for chunk in chunks))


def _chunks(segment: Segment) -> Iterator[tuple[int, Batches]]:
    """The segment in stretches of whole batches, with their positions."""
    data = segment.log.map()
    start, want = 0, CHUNK_BYTES
    while start < len(data):
        batches = scan(data[start : start + want])
        if batches.end == 0 and batches.torn and start + want < len(data):
            want *= 2  # one batch is larger than a chunk
            continue
        if batches.fault is not None and not (batches.torn and start + want < len(data)):
            where = f"{segment.path(LOG)} at byte {start + batches.end}"
            raise CorruptLog(where, batches.fault)
        yield start, batches
        start, want = start + batches.end, CHUNK_BYTES


def _in_order(batches: Batches, reached: int, end: int, where: str) -> int:
    """Offsets go up and stay in their segment; no checksum covers a batch's base offset."""
    ends = last_offsets(batches.headers) + 1
    starts = np.concatenate([np.array([reached]), ends[:-1]])
    wrong = np.flatnonzero((column(batches.headers, "base_offset") < starts) | (ends > end))
    if len(wrong):
        offset = int(batches.headers["base_offset"][wrong[0]])
        raise CorruptLog(where, f"a batch at offset {offset} is out of order")
    return int(ends[-1])


def _control_records(segment: Segment, batches: Batches) -> Iterator[ControlRecord | None]:
    control = np.flatnonzero(column(batches.headers, "attributes") & CONTROL)
    positions, sizes = batches.position[control], batches.size[control]
    for position, size in zip(positions.tolist(), sizes.tolist(), strict=True):
        batch = batches.data[position : position + size].tobytes()
        yield first_control_record(batch, f"{segment.path(LOG)} near byte {position}")


def _grouped(segments: list[Segment], log: PartitionLog) -> list[list[int]]:
    """Which neighbours go into one file: as many as fit, by their sizes before cleaning."""
    groups: list[list[int]] = []
    size = index_size = time_size = 0
    for number, segment in enumerate(segments):
        sizes = (segment.size, len(segment.offsets.data), len(segment.times.data))
        fits = (
            bool(groups)
            and size + sizes[0] <= log.config.segment_bytes
            and index_size + sizes[1] <= log.config.segment_index_bytes
            and time_size + sizes[2] <= log.config.segment_index_bytes
            and segment.end_offset - 1 - segments[groups[-1][0]].base_offset <= MOST_RELATIVE_OFFSET
        )
        if fits:
            groups[-1].append(number)
            size, index_size, time_size = (
                size + sizes[0],
                index_size + sizes[1],
                time_size + sizes[2],
            )
        else:
            groups.append([number])
            size, index_size, time_size = sizes
    return groups


# ── mark and gather ──


@dataclass(slots=True)
class _Output:
    """What stays, by segment: parts in the order they were made, which is last to first."""

    parts: list[list[bytes]]
    aborted: list[list[AbortedTransaction]]
    tally: Tally = field(default_factory=Tally)


class _SetFull(Exception):
    def __init__(self, share_done: float) -> None:
        self.share_done = share_done


class _Pass:
    def __init__(self, bounds: Bounds, options: CleanerOptions, plan: _Plan) -> None:
        self._bounds = bounds
        self._options = options
        self._plan = plan
        self._most_slots = max(options.set_bytes // 8, 64)
        for_all = int(plan.records / MOST_FULL) + 64
        self._slots = min(FIRST_SLOTS, for_all, self._most_slots)
        self._parts = 1
        self._readings = 0

    def run(self) -> _Output:
        while True:
            try:
                output = self._read_all()
                output.tally.readings = self._readings
                return output
            except _SetFull as full:
                self._grow(full.share_done)

    def _grow(self, share_done: float) -> None:
        """A set for as many keys as there seem to be, and at the most for all records."""
        seen = self._slots * MOST_FULL * self._parts
        expected = min(1.2 * seen / max(share_done, 0.01), self._plan.records)
        slots = int(max(expected / MOST_FULL, 2 * self._slots * self._parts)) + 64
        self._parts = -(-slots // self._most_slots)
        self._slots = -(-slots // self._parts)

    def _read_all(self) -> _Output:
        stored: dict[int, Array] = {}
        for part in range(self._parts - 1):
            self._read(part, stored, None)
        output = _Output([[] for _ in self._plan.segments], self._plan.aborted)
        self._read(self._parts - 1, stored, output)
        return output

    def _read(self, part: int, stored: dict[int, Array], output: _Output | None) -> None:
        """One reading of the log, last chunk first; the last one of them writes what stays."""
        self._readings += 1
        table = np.zeros(self._slots, np.uint64)
        maps = [segment.log.map() for segment in self._plan.segments]
        used = done = 0
        for number in range(len(self._plan.chunks) - 1, -1, -1):
            chunk = self._plan.chunks[number]
            work = _Work(maps[chunk.segment][chunk.start : chunk.end], chunk)
            if number in stored:
                work.marks[:] = stored.pop(number)
            used, left = work.mark(
                table, used, part, self._parts, self._bounds, self._options.seed,
                self._plan.segments[chunk.segment],
            )  # fmt: skip
            if left:
                raise _SetFull(done / max(self._plan.records, 1))
            done += chunk.records
            if output is None:
                stored[number] = work.marks
            else:
                horizon = self._bounds.now_ms + self._options.delete_retention_ms
                output.parts[chunk.segment].append(work.gather(horizon, output.tally))


class _Work:
    """One chunk while it is judged and written."""

    def __init__(self, raw: memoryview, chunk: _Chunk) -> None:
        self.fates = chunk.fates
        self.batches = scan(raw)
        self.counts = column(self.batches.headers, "records_count").astype(np.int64)
        self.first_row = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])
        self.marks = np.zeros(int(self.first_row[-1]), np.uint8)
        self.codecs = column(self.batches.headers, "attributes") & CODEC_MASK

    def mark(
        self,
        table: Array,
        used: int,
        part: int,
        parts: int,
        bounds: Bounds,
        seed: int,
        segment: Segment,
    ) -> tuple[int, int]:
        where = segment.path(LOG)
        if part == 0:
            bad = first_bad_crc(self.batches)
            if bad is not None:
                raise CorruptLog(f"{where}, batch at offset {bad}", "the checksum does not match")
        self._inflate(where)
        if (self.counts * MIN_RECORD_BYTES > self.ends - self.starts)[self.fates != 0].any():
            raise CorruptLog(where, "a batch claims more records than it has bytes for")
        most_rows = int(self.counts.max(initial=1))
        longest = int((self.ends - self.starts).max(initial=0)) + GUARD
        scratch_batch = np.empty(longest, np.uint8)
        scratch = np.empty(most_rows * 25, np.uint8)
        used, left, fault = kernels.mark(
            address(self.data), len(self.data), address(self.batches.headers),
            address(self.starts), address(self.ends), address(self.fates), len(self.batches),
            address(self.first_row), address(self.marks), seed, address(table), len(table), used,
            int(len(table) * MOST_FULL), part, parts, bounds.tombstones, address(scratch_batch),
            address(scratch), most_rows,
        )  # fmt: skip
        if fault:
            offset = int(self.batches.headers["base_offset"][left - 1])
            raise CorruptLog(f"{where}, batch at offset {offset}", "its records cannot be read")
        return used, left

    def _inflate(self, where: str) -> None:
        """`data`, `starts`, `ends`: where the plain records of each batch are."""
        self.data = self.batches.data
        self.starts = self.batches.position + HEADER_BYTES
        self.ends = self.batches.position + self.batches.size
        if not self.codecs.any():
            return
        raw = self.batches.data.data
        sections: list[bytes | memoryview] = []
        needed = (self.fates & kernels.FATE) == kernels.DEDUPLICATE
        for start, end, codec, wanted in zip(
            self.starts.tolist(), self.ends.tolist(), self.codecs.tolist(), needed.tolist(),
            strict=True,
        ):  # fmt: skip
            section: bytes | memoryview = raw[start:end]
            if codec:
                section = inflate(codec, section, where) if wanted else b""
            sections.append(section)
        self.ends = np.cumsum(np.fromiter(map(len, sections), np.int64, len(sections)))
        self.starts = np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])
        self.data = np.frombuffer(b"".join(sections), np.uint8)

    def gather(self, horizon: int, tally: Tally) -> bytes:
        # A rebuilt record may need a longer time delta and a longer length.
        room = len(self.batches.data) + len(self.data) + 16 * len(self.marks) + GUARD
        out = np.empty(room, np.uint8)
        sizes, kinds = np.empty(len(self.batches), np.int64), np.empty(len(self.batches), np.uint8)
        written = kernels.gather(
            address(self.batches.data), address(self.batches.position), address(self.data),
            address(self.starts), address(self.fates), len(self.batches),
            address(self.first_row), address(self.marks), horizon, address(out), address(sizes),
            address(kinds),
        )  # fmt: skip
        self._count(tally, kinds)
        plain = out[:written]
        packed = (self.codecs != 0) & (kinds == kernels.REBUILT)
        result = self._compress(plain.data, sizes, packed) if packed.any() else plain.tobytes()
        tally.bytes_written += len(result)
        return result

    def _compress(self, plain: memoryview, sizes: Array, packed: Array) -> bytes:
        parts: list[bytes | bytearray | memoryview] = []
        place = 0
        for size, codec, again in zip(
            sizes.tolist(), self.codecs.tolist(), packed.tolist(), strict=True
        ):
            batch = plain[place : place + size]
            place += size
            parts.append(compressed(batch, codec) if again else batch)
        return b"".join(parts)

    def _count(self, tally: Tally, kinds: Array) -> None:
        rows_of = np.repeat(np.arange(len(self.batches)), self.counts)
        control = column(self.batches.headers, "attributes") & CONTROL != 0
        dropped = (self.fates & kernels.FATE) == kernels.DROP
        judged = ((self.fates & kernels.FATE) == kernels.DEDUPLICATE)[rows_of]
        marks = self.marks[judged]
        tally.records_read += int(self.counts.sum())
        tally.bytes_read += self.batches.end
        tally.superseded += int((marks == 0).sum())
        tally.tombstones += int((marks == kernels.TOMBSTONE).sum())
        tally.without_key += int((marks == kernels.WITHOUT_KEY).sum())
        tally.aborted += int(self.counts[dropped & ~control].sum())
        tally.markers += int(self.counts[dropped & control].sum())
        tally.empty_batches += int(((kinds == kernels.GONE) & (self.counts == 0)).sum())


# ── swap ──


def _swap_all(log: PartitionLog, groups: list[list[int]], output: _Output, bounds: Bounds) -> None:
    """Puts the cleaned segments in place, oldest group first, each durable before the next."""
    segments = log.segments[: sum(map(len, groups))]
    ready: list[tuple[list[Segment], Segment]] = []
    for group in groups:
        old = [segments[number] for number in group]
        fresh = Segment.attach(
            log.disk, log.directory, old[0].base_offset, old[0].created_ms, CLEANED
        )
        fresh.log.truncate(0)
        for number in group:
            for part in reversed(output.parts[number]):
                fresh.append(
                    part, list(headers_in(part, fresh.path(LOG))), log.config.index_interval_bytes
                )
            for entry in output.aborted[number]:
                fresh.add_aborted(entry)
        fresh.seal()
        fresh.sync()
        ready.append((old, fresh))
    _forget_snapshots(log, bounds.end)
    for old, fresh in ready:
        _swap(log, old, fresh)


def _forget_snapshots(log: PartitionLog, end: int) -> None:
    """A snapshot may hold a transaction open whose marker this pass removes: it goes first."""
    for name in log.disk.names(log.directory):
        parsed = parse_segment_file(name)
        if parsed and parsed[1] == SNAPSHOT and parsed[0] < end:
            log.disk.remove(f"{log.directory}/{name}")
    log.disk.sync_directory(log.directory)


def _swap(log: PartitionLog, old: list[Segment], fresh: Segment) -> None:
    """From here on the cleaned segment is the one that counts, whatever happens."""
    fresh.rename(SWAP)
    log.disk.sync_directory(log.directory)
    for segment in old:
        segment.remove()
    fresh.rename("")
    log.disk.sync_directory(log.directory)
    at = log.segments.index(old[0])
    log.segments[at : at + len(old)] = [fresh]
