"""One partition, read once from start to end, held against what its pipeline promised.

    chunk ──scan──▶ headers ──Settling──▶ what is shown ─┐
              └──decode──▶ columns ──fields──▶ numbers ──┴──▶ `checks` ──▶ sightings

A key lives in one partition, so whatever is asked of a key is answered inside one task, at the
speed of memory: no row is sent anywhere, no state store is called. An id may turn up in another
partition, too; `across` says how those are found.

After a fall the lower value counts: one regression is one sighting, however long it takes until the
value has caught up. A delete (a null value without a number) ends a key's history, and it may begin
anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sexton.audit import state_kernels as kernels
from sexton.audit.across import mark
from sexton.audit.checks import ID, ISOLATION, MOST_SIGHTINGS, SEQUENCE, VALUE, Checks
from sexton.audit.expressions import Expression, number, parts
from sexton.audit.fields import (
    EMPTY,
    FOUND,
    UNREADABLE,
    Read,
    Rows,
    fingerprints,
    numbers,
    slow_token,
    together,
    why_unreadable,
)
from sexton.audit.settling import Aborted, Settling
from sexton.audit.validation import (
    NO_OFFSET,
    UNCOMMITTED,
    PartitionFacts,
    Rules,
    Sighting,
    Unread,
)
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.records import tables
from sexton.records.decoder import Decoder, scan
from sexton.records.layout import CONTROL
from sexton.records.tables import Array

MOST_DAMAGE: Final = 100
_EXPONENT: Final = rb"[eE][+-]?[0-9]+"
_FRACTION: Final = re.compile(rb"-?[0-9]+(\.[0-9]+(%b)?|%b)" % (_EXPONENT, _EXPONENT))


class UnreadableRecord(ConfigError):
    """A record in which an expression finds nothing; the user has to say what that means."""


@dataclass(frozen=True, slots=True)
class _Told:
    """Of rows of decoded records."""

    rows: Rows
    key_parts: tuple[Expression, ...]
    id_parts: tuple[Expression, ...]

    def key(self, row: int) -> bytes | None:
        return together(self.key_parts, self.rows, row)

    def id(self, row: int) -> bytes | None:
        return together(self.id_parts, self.rows, row)

    def offset(self, row: int) -> int:
        return int(self.rows.columns.offset[self.rows.rows[row]])

    def timestamp_ms(self, row: int) -> int:
        return int(self.rows.columns.timestamp[self.rows.rows[row]])

    def producer(self, row: int) -> tuple[int, int]:
        columns, at = self.rows.columns, int(self.rows.rows[row])
        batch = int(np.searchsorted(columns.first_row, at, side="right")) - 1
        header = columns.headers_of_batches[batch]
        return int(header["producer_id"]), int(header["producer_epoch"])


class Validating(Checks):
    """Takes a partition's batches in order, and says what is wrong with them."""

    def __init__(self, partition: TopicPartition, rules: Rules, **chosen: Any) -> None:
        """`chosen` as in `Checks`."""
        self._expressions = {
            name: number(text, f"--{name}")
            for name, text in ((VALUE, rules.value), (SEQUENCE, rules.sequence))
            if text is not None
        }
        fractions = frozenset(
            name for name, each in self._expressions.items() if each.kind in ("float", "double")
        )
        super().__init__(partition, rules, fractions=fractions, **chosen)
        self._key = parts(rules.key, "--key")
        self._id = parts(rules.id, "--id") if rules.id is not None else ()
        self._content = parts(rules.content, "--content")
        self._decoder = Decoder()
        self._settling = Settling()
        self._differing: list[Array] = []  # offsets that only read_uncommitted shows
        self.sketch: Array | None = None  # of ids, for `across`

    # ── the log ──

    def take(
        self,
        data: memoryview | bytes,
        aborted: Aborted,
        *,
        start: int = 0,
        end: int | None = None,
        undecided: bool = False,
    ) -> None:
        """Whole batches in order, and (first offset, producer id) of aborted ones, as listed.

        Of them only what is in [start, end) counts: a broker hands on more than it was asked for.
        `undecided`: they are past the last stable offset, where read_committed shows nothing yet.
        """
        start, end = max(start, self.start), self.end if end is None else min(end, self.end)
        batches = scan(data)
        settled = self._settling.take(batches, aborted)
        self.note("bytes", int(batches.end))
        if batches.fault is not None:
            self._note_damage(self.start, batches.fault)
        is_data = (tables.field(batches.headers, "attributes") & CONTROL) == 0
        hidden = is_data if undecided else is_data & (settled.visible == 0)
        shown = is_data & ~hidden if self.rules.committed else is_data
        first = 0
        for columns, bad in self._decoder.parts(batches, str(self.partition)):
            stop = first + len(columns.headers_of_batches)
            for each in bad:
                self._note_damage(each.base_offset, each.why)
            sizes = np.diff(columns.first_row)
            inside = (columns.offset >= start) & (columns.offset < end)
            chosen = np.flatnonzero(np.repeat(shown[first:stop], sizes) & inside)
            unseen = np.repeat(hidden[first:stop], sizes) & inside
            self.note("hidden", int(np.count_nonzero(unseen)))
            if len(chosen):
                self.note("records", len(chosen))
                self.take_rows(Rows(columns, chosen, self.partition))
            if ISOLATION in self.checks:
                seen = np.repeat(is_data[first:stop], sizes) & inside
                self._take_isolation(Rows(columns, np.flatnonzero(seen), self.partition), unseen)
            first = stop

    def take_rows(self, rows: Rows) -> None:
        """Records that are to be judged, in order."""
        told = _Told(rows, self._key, self._id)
        offsets = rows.offsets
        if self._expressions or self.rules.source is not None or ISOLATION in self.checks:
            keys = self._keys(rows)
        for name, expression in self._expressions.items():
            found = numbers(expression, rows)
            deleted = rows.columns.value.length[rows.rows] < 0
            found.status[deleted & (found.status == UNREADABLE)] = EMPTY  # no number: it ends here
            self._refuse((expression,), found.status, keys.status, rows)
            status = np.where(keys.status == FOUND, found.status, UNREADABLE).astype(np.uint8)
            self.fold(name, keys.values, status, found.values, offsets, told)
        if self._id:
            self._take_ids(rows, offsets, told)

    def _keys(self, rows: Rows) -> Read:
        keys = fingerprints(self._key, rows, self.seed)
        self._refuse(self._key, keys.status, None, rows)
        self.note("without_key", int(np.count_nonzero(keys.status == EMPTY)))
        return keys

    def _take_ids(self, rows: Rows, offsets: Array, told: _Told) -> None:
        ids = fingerprints(self._id, rows, self.seed)
        self._refuse(self._id, ids.status, None, rows)
        if self.sketch is not None and self.reading == 1:
            mark(self.sketch, ids)
        content = fingerprints(self._content, rows, self.seed)
        digests = np.ascontiguousarray(content.values[:, 0]).view(np.int64)
        digests[content.status != FOUND] = 0
        self.fold(ID, ids.values, ids.status, digests, offsets, told)

    def _take_isolation(self, rows: Rows, hidden: Array) -> None:
        """The last record of each key, whoever sees it: is it one that was aborted?"""
        if not len(rows):
            return
        keys = fingerprints(self._key, rows, self.seed)
        if self.rules.committed:  # those that are shown were asked for theirs already
            unseen = np.where(hidden[rows.rows], keys.status, FOUND).astype(np.uint8)
            self._refuse(self._key, unseen, None, rows)
        status = np.where(keys.status == FOUND, FOUND, UNREADABLE).astype(np.uint8)
        self.note_judged(ISOLATION, status)
        flags = hidden[rows.rows].astype(np.int64)
        self.checks[ISOLATION].table.take(keys.values, status, flags, rows.offsets)

    def _refuse(
        self, expressions: Sequence[Expression], status: Array, beside: Array | None, rows: Rows
    ) -> None:
        """Records in which an expression finds nothing are an error, or are counted."""
        wrong = status == UNREADABLE
        if beside is not None:
            wrong &= beside == FOUND  # without a key it is nobody's value
        unreadable = np.flatnonzero(wrong)
        if not len(unreadable):
            return
        row = int(unreadable[0])
        offset = int(rows.offsets[row])
        if not self.rules.skip_unreadable:
            missing = [each for each in expressions if slow_token(each, rows, row) is None]
            wrong_one = (missing or expressions)[0]
            why = why_unreadable(wrong_one, rows, row)
            hint = "read another part of the record, or leave such records out: --skip-unreadable"
            if wrong_one is self._expressions.get(VALUE):
                hint = _fraction(wrong_one, slow_token(wrong_one, rows, row)) or hint
            raise UnreadableRecord(f"{self.partition}, offset {offset}", why, hint)
        self.note_unreadable(len(unreadable), offset)

    def _note_damage(self, offset: int, why: str) -> None:
        if self.reading == 1 and len(self.damage) < MOST_DAMAGE:
            self.damage.append(Unread(offset, why))

    # ── what it amounts to ──

    def go_on(self, start: int, end: int) -> None:
        super().go_on(start, end)
        # The last chunk reached beyond the last stretch, and is read again from `start` on: what
        # was aborted there comes with it once more.
        self._settling = Settling()

    def again(self) -> bool:
        """Has the log to be read again from its start, since memory did not do for all keys?"""
        isolation = self.checks.get(ISOLATION)
        if isolation is not None and not isolation.table.done:
            entries = isolation.table.entries
            aborted = entries[entries[:, 2] == 1]
            self._differing.append(aborted[:, 3].astype(np.int64) - kernels.SHIFT)
        left = [check.table.again() for check in self.checks.values()]  # each has to hear it
        if not any(left):
            return False
        self._settling = Settling()
        self.reading += 1
        return True

    def facts(self) -> PartitionFacts:
        facts = super().facts()
        offsets = np.sort(np.concatenate([np.empty(0, np.int64), *self._differing]))
        if not len(offsets):
            return facts
        here = self.partition
        told = tuple(
            Sighting(UNCOMMITTED, here, None, None, "", "", NO_OFFSET, offset, here.partition)
            for offset in offsets[:MOST_SIGHTINGS].tolist()
        )
        counts = {**facts.counts, UNCOMMITTED: len(offsets)}
        return replace(facts, counts=counts, sightings=(*facts.sightings, *told))


def _fraction(expression: Expression, token: bytes | None) -> str | None:
    """What to do if it is one."""
    if expression.kind == "int" and token is not None and _FRACTION.fullmatch(token):
        fraction = str(replace(expression, kind="float")).removeprefix("value ")
        return f"read it as a fraction: '{fraction}'"
    return None
