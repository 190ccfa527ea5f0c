"""The rules at work on one partition: rows as arrays in, sightings and counts out.

    fingerprints, numbers, offsets ──▶ a table for each rule ──events──▶ what to tell

Where the arrays come from is someone else's concern: records of a log (`validating`), or rows of a
DataFrame. What a row says in words (`Teller`) is asked for only when something is wrong with it.

A stream goes on with `go_on`, and keeps `changes` between its steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from sexton.audit import state_kernels as kernels
from sexton.audit.facts import BUCKETS
from sexton.audit.fields import EMPTY, FOUND, from_sortable
from sexton.audit.state_table import Entries, StateTable
from sexton.audit.validation import (
    DUPLICATE,
    INCONSISTENT,
    KEY_SEQUENCE_GAP,
    NO_OFFSET,
    STATE_REGRESSION,
    PartitionFacts,
    Rules,
    Sighting,
    Unread,
)
from sexton.base.partitions import TopicPartition
from sexton.records.tables import Array

MOST_KEYS: Final = 20_000_000  # of one partition in memory: 640 MB to 1.3 GB
MOST_SIGHTINGS: Final = 1_000  # of each code in one partition, told one by one
VALUE, SEQUENCE, ID, ISOLATION = "value", "sequence", "id", "isolation"
_CODES = {
    kernels.WENT_BACK: STATE_REGRESSION,
    kernels.LEFT_OUT: KEY_SEQUENCE_GAP,
    kernels.AGAIN: DUPLICATE,
    kernels.AGAIN_OTHERWISE: INCONSISTENT,
}


class Teller(Protocol):
    """Knows the rows that are being folded."""

    def key(self, row: int) -> bytes | None: ...
    def id(self, row: int) -> bytes | None: ...
    def offset(self, row: int) -> int: ...
    def timestamp_ms(self, row: int) -> int: ...
    def producer(self, row: int) -> tuple[int, int]:
        """Its id and epoch; -1 where nobody knows."""


@dataclass(slots=True)
class Check:
    """One rule, and all that it remembers."""

    name: str
    table: StateTable
    fraction: bool  # are its numbers those of fractions?
    counts: dict[str, Array] = field(default_factory=dict)  # by code, a number for each bucket
    sightings: list[tuple[int, Sighting]] = field(default_factory=list)  # with their buckets

    def count(self, code: str, buckets: Array) -> None:
        counts = self.counts.setdefault(code, np.zeros(BUCKETS, np.int64))
        np.add.at(counts, buckets, 1)

    def text(self, number: int) -> str:
        if self.name == ID:
            return ""  # a digest of the content, which says nothing
        return repr(from_sortable(number)) if self.fraction else str(number)

    def forget_given_up(self) -> None:
        """What was seen of buckets that another reading takes up again."""
        high = self.table.high
        for counts in self.counts.values():
            counts[high:] = 0
        self.sightings = [each for each in self.sightings if each[0] < high]


class Checks:
    """All rules of one partition."""

    def __init__(
        self,
        partition: TopicPartition,
        rules: Rules,
        *,
        start: int,
        end: int,
        seed: int,
        most_keys: int = MOST_KEYS,
        may_read_again: bool = True,
        fractions: frozenset[str] = frozenset(),
    ) -> None:
        """`fractions`: the rules (VALUE, SEQUENCE) whose numbers are those of fractions."""
        self.partition, self.rules = partition, rules
        self.start, self.end = start, end
        self.seed = seed
        self.reading = 1
        counted = ("records", "bytes", "hidden", "without_key", "unreadable", "passed_over")
        self.noted = dict.fromkeys(counted, 0)
        self.first_unreadable = NO_OFFSET
        self.damage: list[Unread] = []
        self.touched: dict[str, list[Array]] | None = None  # which keys changed, for a stream
        rising = kernels.RISING if rules.rising == "rising" else kernels.NEVER_BACK
        wanted = {
            VALUE: (rules.value is not None, rising),
            SEQUENCE: (rules.sequence is not None, kernels.SEQUENCE),
            ID: (rules.id is not None, kernels.ONCE),
            ISOLATION: (rules.compare_isolation, kernels.LAST),
        }
        self.checks = {
            name: Check(
                name, StateTable(mode, most_keys, may_read_again=may_read_again), name in fractions
            )
            for name, (asked, mode) in wanted.items()
            if asked
        }
        self.judged = dict.fromkeys(self.checks, 0)

    # ── rows ──

    def fold(
        self, name: str, prints: Array, status: Array, values: Array, offsets: Array, rows: Teller
    ) -> None:
        """Rows in log order: fingerprints of their keys (or ids), and numbers."""
        check = self.checks[name]
        self.note_judged(name, status)
        high = check.table.high
        events = check.table.take(prints, status, values, offsets)
        if self.touched is not None:
            last = FOUND if name == ID else EMPTY  # a null ends the history of a key, not of an id
            self.touched.setdefault(name, []).append(prints[status <= last])
        if check.table.high != high:
            check.forget_given_up()
            events = events[events[:, 4] < check.table.high]
        for kind in np.unique(events[:, 1]).tolist() if len(events) else ():
            of_kind = events[events[:, 1] == kind]
            check.count(_CODES[kind], of_kind[:, 4])
            room = MOST_SIGHTINGS - sum(s.code == _CODES[kind] for _bucket, s in check.sightings)
            for event in of_kind[: max(room, 0)].tolist():
                check.sightings.append((event[4], self._sighting(check, rows, values, event)))

    def _sighting(self, check: Check, rows: Teller, values: Array, event: list[int]) -> Sighting:
        row, kind, last, last_offset, _bucket = event
        producer_id, producer_epoch = rows.producer(row)
        return Sighting(
            code=_CODES[kind],
            partition=self.partition,
            key=rows.key(row),
            id=rows.id(row) if check.name == ID else None,
            last_value=check.text(last),
            value=check.text(int(values[row])),
            last_offset=last_offset,
            offset=rows.offset(row),
            last_partition=self.partition.partition,
            timestamp_ms=rows.timestamp_ms(row),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            of_sequence=check.name == SEQUENCE and kind == kernels.WENT_BACK,
        )

    def note(self, what: str, count: int) -> None:
        """Counted once, however often the log has to be read."""
        if self.reading == 1:
            self.noted[what] += count

    def note_judged(self, name: str, status: Array) -> None:
        if self.reading == 1:
            self.judged[name] += int(np.count_nonzero(status == FOUND))

    def note_unreadable(self, count: int, offset: int) -> None:
        self.note("unreadable", count)
        if self.reading == 1 and self.first_unreadable == NO_OFFSET:
            self.first_unreadable = offset

    # ── what it amounts to ──

    def facts(self) -> PartitionFacts:
        """After the last reading."""
        counts: dict[str, int] = {}
        sightings: list[Sighting] = []
        for check in self.checks.values():
            for code, of_buckets in check.counts.items():
                counts[code] = counts.get(code, 0) + int(of_buckets.sum())
            sightings += [each for _bucket, each in check.sightings]
        back = {name: each.counts.get(STATE_REGRESSION) for name, each in self.checks.items()}
        of_sequence = back.get(SEQUENCE)
        keyed = [check.table.keys for name, check in self.checks.items() if name != ID]
        return PartitionFacts(
            partition=self.partition,
            start=self.start,
            end=self.end,
            **self.noted,
            keys=max(keyed, default=0),
            ids=self.checks[ID].table.keys if ID in self.checks else 0,
            first_unreadable=self.first_unreadable,
            counts={code: count for code, count in counts.items() if count},
            sightings=tuple(sorted(sightings, key=lambda each: (each.offset, each.code))),
            damage=tuple(self.damage),
            judged=dict(self.judged),
            of_sequence=0 if of_sequence is None else int(of_sequence.sum()),
        )

    # ── a stream goes on ──

    def go_on(self, start: int, end: int) -> None:
        """The next stretch of the log; what is known of keys and ids stays."""
        self.start, self.end = start, end
        self.noted = dict.fromkeys(self.noted, 0)
        self.judged = dict.fromkeys(self.judged, 0)
        self.first_unreadable = NO_OFFSET
        self.damage = []
        self.touched = {}
        for check in self.checks.values():
            check.counts.clear()
            check.sightings.clear()

    def changes(self) -> dict[str, Entries]:
        """By rule, the entries of keys that this stretch has touched."""
        touched = self.touched or {}
        return {
            name: check.table.of(np.concatenate(touched[name]))
            for name, check in self.checks.items()
            if touched.get(name)
        }

    @property
    def changed_most(self) -> bool:
        """Is all that is known no more than what this stretch has touched?"""
        touched = self.touched or {}
        rows = sum(len(prints) for some in touched.values() for prints in some)
        return rows >= sum(check.table.keys for check in self.checks.values())

    @property
    def bytes_held(self) -> int:
        """In memory, for all that is known of keys and ids."""
        return sum(check.table.bytes_held for check in self.checks.values())

    def everything(self) -> dict[str, Entries]:
        return {name: check.table.entries for name, check in self.checks.items()}

    def remember(self, kept: Mapping[str, Entries]) -> None:
        for name, check in self.checks.items():
            if name in kept:
                check.table.put(kept[name])
