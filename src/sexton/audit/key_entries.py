"""The keys of some buckets one by one: what to name when digests differ.

Whatever a replica leaves out for want of room the others must leave out as well, or it would look
missing here. So keys are left out by their fingerprints: from a ceiling on, which comes down when
there are too many, nothing is kept; below it, everything. Comparing takes the lowest ceiling, and
that is the floor of the next reading, until nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from sexton.audit import fold_kernels
from sexton.audit.facts import BUCKETS, KeyEntry, Scope
from sexton.audit.settling import Marker
from sexton.base.digests import hex_digest
from sexton.records import tables
from sexton.records.columns import Columns
from sexton.records.layout import TRANSACTIONAL
from sexton.records.native import address
from sexton.records.tables import Array

HIGHEST = (1 << 64) - 1


def value_digest(value: bytes | None) -> str | None:
    """128 bits that stand for a value where nobody is to read it."""
    return None if value is None else hex_digest(value)


def fingerprint(key: bytes, seed: int) -> int:
    data = np.frombuffer(key or b"\0", np.uint8)
    return int(fold_kernels.fingerprint(address(data), len(key), seed))


@dataclass(slots=True)
class _Record:
    offset: int
    timestamp: int
    value_digest: str | None
    producer_id: int
    epoch: int
    transactional: bool
    base_offset: int
    last_offset: int
    marker_offset: int | None = None


@dataclass(slots=True)
class _Held:
    """What is known of one key."""

    fingerprint: int
    record: _Record | None = None  # the last one below the scope's end
    beyond: bool = False


@dataclass(slots=True)
class KeyEntries:
    """Collects the last visible records of keys in the buckets asked for."""

    scope: Scope
    buckets: frozenset[int]
    most: int
    floor: int = 0  # an earlier reading had room for everything below it
    ceiling: int = HIGHEST
    _held: dict[bytes, _Held] = field(default_factory=dict)
    _waiting: dict[int, list[_Record]] = field(default_factory=dict)  # by producer, for its marker
    _asked: Array = field(default_factory=lambda: np.zeros(BUCKETS, np.uint8))

    def __post_init__(self) -> None:
        self._asked[sorted(self.buckets)] = 1

    def take(self, columns: Columns, visible: Array, markers: Iterable[Marker]) -> None:
        """Rows of visible batches; a marker's `batch` counts among these batches."""
        rows, fingerprints = self._select(columns, visible)
        taken = 0
        batches = np.searchsorted(columns.first_row, rows, side="right") - 1
        for marker in markers:
            if marker.ends:
                until = int(np.searchsorted(batches, marker.batch))
                self._take_rows(columns, rows, fingerprints, batches, taken, until)
                taken = until
                for record in self._waiting.pop(marker.producer_id, ()):
                    record.marker_offset = marker.offset
        self._take_rows(columns, rows, fingerprints, batches, taken, len(rows))

    def entries(self) -> tuple[KeyEntry, ...]:
        return tuple(
            KeyEntry(
                key, one.offset, one.timestamp, one.value_digest, one.producer_id, one.epoch,
                one.transactional, one.base_offset, one.last_offset, one.marker_offset, held.beyond,
            )
            for key, held in sorted(self._held.items())
            if (one := held.record) is not None
        )  # fmt: skip

    def moved_on(self) -> tuple[bytes, ...]:
        return tuple(key for key, held in sorted(self._held.items()) if held.record is None)

    def left_out(self) -> int:
        """About how many keys there are at or over the ceiling."""
        if self.ceiling == HIGHEST:
            return 0
        share = self._asked_between(self.ceiling, HIGHEST) / (
            self._asked_between(self.floor, self.ceiling) or 1
        )
        return max(1, round(len(self._held) * share))

    def _asked_between(self, low: int, high: int) -> int:
        """How many fingerprints of [low, high) there are in the buckets asked for."""
        size = 1 << fold_kernels.BUCKET_SHIFT
        return sum(
            max(0, min(high, (each + 1) * size) - max(low, each * size)) for each in self.buckets
        )

    def _select(self, columns: Columns, visible: Array) -> tuple[Array, Array]:
        rows, fingerprints = np.empty(len(columns), np.int64), np.empty(len(columns), np.uint64)
        key = columns.key
        count = fold_kernels.select(
            address(columns.first_row), address(visible), len(visible), address(columns.offset),
            address(key.data), address(key.position), address(key.length), self.scope.seed,
            self.scope.start, address(self._asked), self.ceiling, address(rows),
            address(fingerprints),
        )  # fmt: skip
        rows, fingerprints = rows[:count], fingerprints[:count]
        if not self.floor:
            return rows, fingerprints
        wanted = fingerprints >= np.uint64(self.floor)
        return rows[wanted], fingerprints[wanted]

    def _take_rows(
        self, columns: Columns, rows: Array, prints: Array, batches: Array, first: int, end: int
    ) -> None:
        if first == end:
            return
        of_batch = batches[first:end]
        headers = columns.headers_of_batches[of_batch]
        some = rows[first:end]
        values = zip(
            columns.key.take(some).to_list(),
            prints[first:end].tolist(),
            columns.offset[some].tolist(),
            columns.timestamp[some].tolist(),
            columns.value.take(some).to_list(),
            tables.field(headers, "producer_id").tolist(),
            tables.field(headers, "producer_epoch").tolist(),
            (tables.field(headers, "attributes") & TRANSACTIONAL).tolist(),
            tables.field(headers, "base_offset").tolist(),
            tables.last_offsets(headers).tolist(),
            strict=True,
        )
        for key, bits, offset, time, value, producer, epoch, in_transaction, base, last in values:
            assert key is not None, "the kernel leaves out rows without a key"
            if bits >= self.ceiling:
                continue
            held = self._held.get(key)
            if held is None:
                held = self._held[key] = _Held(bits)
                if len(self._held) > self.most:
                    self._lower()
            if offset >= self.scope.end:
                held.beyond = True
                continue
            held.record = _Record(
                offset, time, value_digest(value), producer, epoch, bool(in_transaction), base, last
            )
            if in_transaction:
                self._waiting.setdefault(producer, []).append(held.record)

    def _lower(self) -> None:
        """Keeps the lower half of the keys."""
        prints = sorted(held.fingerprint for held in self._held.values())
        self.ceiling = prints[len(prints) // 2]
        self._held = {
            key: held for key, held in self._held.items() if held.fingerprint < self.ceiling
        }
