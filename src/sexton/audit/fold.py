"""One replica's log, read once from start to end, folded to facts.

    chunk ──scan──▶ headers ──Settling──▶ what is shown ─┬─ KeyTable    digests of all keys
                       │                                 ├─ KeyEntries  the keys of some buckets
                       └──decode──▶ columns ─────────────┘
                                                           or digests of offset ranges

The first look at a replica takes digests of all keys. Where they differ from another replica's, a
second fold is asked for the keys of those buckets. A topic without compaction needs no keys: its
replicas are alike byte by byte, so ranges of offsets have digests there, of offsets and checksums.

A fold takes no more memory for a longer log: the table has a limit (`key_table`), and what is noted
one by one (keys, transactions, damage) has one each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sexton.audit.facts import (
    AbortedSpan,
    BucketEntries,
    Damage,
    OpenTransaction,
    ReplicaFacts,
    Scope,
)
from sexton.audit.key_entries import HIGHEST, KeyEntries
from sexton.audit.key_table import KeyTable
from sexton.audit.range_digests import RangeDigests
from sexton.audit.settling import Aborted, Marker, Settled, Settling
from sexton.records import tables
from sexton.records.columns import Columns
from sexton.records.decoder import BadBatch, Batches, Decoder, scan
from sexton.records.layout import CONTROL, NO_TIMESTAMP

MOST_KEYS = 6_000_000  # 2^23 slots of 16 bytes: 128 MB, and twice that while buckets are given up
MOST_ENTRIES = 20_000
SAMPLE_KEYS = 200_000  # are enough to see how far a log was not cleaned
MOST_DAMAGE = 1_000


class Fold:
    """Takes a replica's batches from `scope.start` on, in order, and says what they amount to."""

    def __init__(
        self,
        scope: Scope,
        *,
        buckets: frozenset[int] | None = None,
        spans: Sequence[AbortedSpan] = (),
        most_keys: int = MOST_KEYS,
        most_entries: int = MOST_ENTRIES,
        floor: int = 0,
    ) -> None:
        """`buckets`: whose keys are wanted one by one; then there are no digests. Of these, those
        whose fingerprints are not below `floor`.

        `spans`: transactions that another replica takes for aborted. Is any of their data shown?
        """
        self.scope = scope
        self._decoder = Decoder()
        self._settling = Settling()
        self._first_settling = self._settling  # a later reading sees the same transactions again
        self._table: KeyTable | None = None
        self._sample: KeyTable | None = None  # of as many keys as fit, for repeats only
        self._entries: KeyEntries | None = None
        self._ranges: RangeDigests | None = None
        if not scope.compacted:
            self._ranges = RangeDigests(scope.start, scope.end)
        elif buckets is None:
            self._table = KeyTable(scope.seed, scope.start, scope.end, most_keys)
        else:
            self._entries = KeyEntries(scope, buckets, most_entries, floor)
            self._sample = KeyTable(scope.seed, scope.start, scope.end, SAMPLE_KEYS)
        self._probed: dict[int, list[AbortedSpan]] = {}
        for span in spans:
            self._probed.setdefault(span.producer_id, []).append(span)
        self._shown: dict[AbortedSpan, None] = {}
        self._damage: list[Damage] = []
        self._damage_left_out = 0
        self._counts = dict.fromkeys(("records", "batches", "bytes", "aborted_records"), 0)
        self._first_time = self._last_time = NO_TIMESTAMP
        self._next = scope.start
        self._reading = 1

    # ── the log ──

    def take(self, data: memoryview | bytes, aborted: Aborted) -> None:
        """Whole batches in order, and (first offset, producer id) of aborted ones, as listed."""
        batches = scan(data)
        settled = self._settling.take(batches, aborted)
        if self._reading == 1:
            self._count(batches, settled)
        if batches.fault is not None:
            self._note_damage(Damage(self._next, self._next, batches.fault, crc=False))
        if self._ranges is not None:
            for damage in self._ranges.take(batches):
                self._note_damage(damage)
        else:
            self._take_rows(batches, settled)

    def again(self) -> bool:
        """Has the log to be read again from its start, since memory did not do for all keys?"""
        if self._table is None or not self._table.again():
            return False
        self._settling = Settling()
        self._reading += 1
        return True

    def _take_rows(self, batches: Batches, settled: Settled) -> None:
        first = 0
        for columns, bad in self._decoder.parts(batches):
            stop = first + len(columns.headers_of_batches)
            visible = settled.visible[first:stop]
            table = self._table or self._sample
            if table is not None:
                table.take(columns, visible)
            if self._entries is not None:
                self._take_entries(self._entries, columns, settled, first, stop)
            for each in bad:
                self._note_bad(batches.slice(first, stop), each)
            first = stop

    def _take_entries(
        self, entries: KeyEntries, columns: Columns, settled: Settled, first: int, stop: int
    ) -> None:
        markers = [
            Marker(each.batch - first, each.producer_id, each.epoch, each.offset, each.kind)
            for each in settled.markers
            if first <= each.batch < stop
        ]
        entries.take(columns, settled.visible[first:stop], markers)

    # ── what is noted on the way ──

    def _count(self, batches: Batches, settled: Settled) -> None:
        if not len(batches):
            return
        headers = batches.headers
        counts = tables.field(headers, "records_count").astype(np.int64)
        is_data = tables.field(headers, "attributes") & CONTROL == 0
        self._counts["records"] += int(counts[is_data].sum())
        self._counts["batches"] += len(batches)
        self._counts["bytes"] += int(batches.end)
        self._counts["aborted_records"] += settled.hidden_records
        times = tables.field(headers, "max_timestamp")
        times = times[times >= 0]
        if len(times):
            earliest, latest = int(times.min()), int(times.max())
            known = self._first_time != NO_TIMESTAMP
            self._first_time = min(self._first_time, earliest) if known else earliest
            self._last_time = max(self._last_time, latest)
        self._next = int(tables.last_offsets(headers[-1:])[0]) + 1
        if self._probed:
            self._probe(batches, settled)

    def _probe(self, batches: Batches, settled: Settled) -> None:
        """Shown data of a producer in a stretch that another replica takes for aborted.

        The transactional bit is not asked for: cleaning clears it once the outcome is known.
        """
        headers = batches.headers
        producers = tables.field(headers, "producer_id")
        counts = tables.field(headers, "records_count")
        asked = np.isin(producers, list(self._probed)) & (counts > 0) & (settled.visible == 1)
        last = tables.last_offsets(headers)
        for index in np.flatnonzero(asked).tolist():
            for span in self._probed[int(producers[index])]:
                before = span.marker_offset is None or headers[index]["base_offset"] < (
                    span.marker_offset
                )
                if before and int(last[index]) >= span.first_offset:
                    self._shown[span] = None

    def _note_bad(self, batches: Batches, bad: BadBatch) -> None:
        last = int(tables.last_offsets(batches.headers[bad.index : bad.index + 1])[0])
        self._note_damage(Damage(bad.base_offset, last, bad.why, bad.crc))

    def _note_damage(self, damage: Damage) -> None:
        """The first ones and the very last: what is before it may be hidden in one of them."""
        if damage in self._damage:
            return  # in an earlier reading, or twice by different ways
        if len(self._damage) < MOST_DAMAGE:
            self._damage.append(damage)
        elif damage.last_offset > self._damage[-1].last_offset:
            self._damage[-1] = damage
            self._damage_left_out += 1

    # ── what it amounts to ──

    def facts(
        self,
        node: int,
        *,
        log_start: int,
        last_stable: int,
        high_watermark: int,
        log_end: int,
        read_to: int,
        open: Iterable[OpenTransaction] = (),
    ) -> ReplicaFacts:
        """After the last reading."""
        table, digested = self._table, self._table or self._ranges
        keyed = self._table or self._sample
        return ReplicaFacts(
            node=node,
            scope=self.scope,
            log_start=log_start,
            last_stable=last_stable,
            high_watermark=high_watermark,
            log_end=log_end,
            read_to=read_to,
            records=self._counts["records"],
            batches=self._counts["batches"],
            bytes=self._counts["bytes"],
            keys=table.keys if table else 0,
            tombstones=table.tombstones if table else 0,
            markers=self._first_settling.markers,
            aborted_records=self._counts["aborted_records"],
            first_timestamp=self._first_time,
            last_timestamp=self._last_time,
            digests=digested.digests() if digested is not None else b"",
            first_repeat=keyed.first_repeat if keyed is not None else None,
            aborted=self._first_settling.spans(),
            open=tuple(open),
            misfits=tuple(self._first_settling.misfits),
            damage=tuple(self._damage),
            gaps=tuple(self._ranges.gaps) if self._ranges is not None else (),
            left_out=self._first_settling.left_out + self._damage_left_out,
        )

    def entries(self, node: int, **offsets: int) -> BucketEntries:
        """The keys of the buckets asked for; `offsets` as for `facts`."""
        entries = self._entries
        return BucketEntries(
            node=node,
            facts=self.facts(node, **offsets),  # type: ignore[arg-type]
            entries=entries.entries() if entries is not None else (),
            moved_on=entries.moved_on() if entries is not None else (),
            left_out=entries.left_out() if entries is not None else 0,
            ceiling=entries.ceiling if entries is not None else HIGHEST,
            floor=entries.floor if entries is not None else 0,
            shown=tuple(self._shown),
        )
