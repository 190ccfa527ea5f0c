"""Did every producer's batches arrive in order, none twice and none left out?

An idempotent producer numbers its records per partition: 0, 1, … 2^31-1, 0 again. Within an epoch a
batch begins where the one before it ended; a new epoch begins at 0; an epoch never goes back. The
first batch that a log still has of a producer can have any number: what was before it is gone.

Cleaning removes whole batches, so in a compacted log a jump forward means nothing; a step back is
wrong in any log. `Break.jump` tells the two apart, and `gaps` knows where offsets are missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sexton.log.inspect.table import BatchTable
from sexton.records.layout import NO_SEQUENCE, sequence_after
from sexton.records.tables import Array

_HALF = 1 << 30  # a sequence this far ahead is one that went back


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The newest data batch of a producer."""

    epoch: int
    last_sequence: int
    base: int
    last: int


@dataclass(frozen=True, slots=True)
class Break:
    """A batch that does not follow the one before it."""

    file: str
    producer: int
    position: int
    offset: int
    epoch: int
    sequence: int
    before: LastBatch

    @property
    def where(self) -> str:
        return f"{self.file} at byte {self.position}"

    @property
    def expected(self) -> int:
        if self.epoch != self.before.epoch:
            return 0
        return sequence_after(self.before.last_sequence, 1)

    @property
    def epoch_went_back(self) -> bool:
        return self.epoch < self.before.epoch

    @property
    def jump(self) -> bool:
        """Sequences were left out; else they came again."""
        ahead = (self.sequence - self.expected) & 0x7FFFFFFF
        return not self.epoch_went_back and ahead < _HALF


@dataclass(frozen=True, slots=True)
class Runs:
    """What one table says of its producers."""

    file: str
    firsts: list[tuple[int, int, int, int, int]]  # producer, position, offset, epoch, sequence
    lasts: dict[int, LastBatch]
    breaks: list[Break]  # inside this table


def runs_of(table: BatchTable, file: str) -> Runs:
    """Compares every batch with the one before it of the same producer."""
    numbered = (table.producer >= 0) & (table.sequence != NO_SEQUENCE) & ~table.is_control
    rows = np.flatnonzero(numbered)
    if not len(rows):
        return Runs(file, [], {}, [])
    rows = rows[np.argsort(table.producer[rows], kind="stable")]
    producer, epoch = table.producer[rows], table.epoch[rows]
    sequence, last_sequence = table.sequence[rows], table.last_sequence[rows]
    new = np.ones(len(rows), bool)
    new[1:] = producer[1:] != producer[:-1]
    expected = np.where(epoch[1:] == epoch[:-1], (last_sequence[:-1] + 1) & 0x7FFFFFFF, 0)
    wrong = ~new[1:] & ((sequence[1:] != expected) | (epoch[1:] < epoch[:-1]))
    last_of = np.append(np.flatnonzero(new)[1:] - 1, len(rows) - 1)
    breaks = [
        Break(file, *_first(table, int(rows[row + 1])), _last(table, rows, row))
        for row in np.flatnonzero(wrong).tolist()
    ]
    return Runs(
        file=file,
        firsts=[_first(table, int(row)) for row in rows[new]],
        lasts={int(producer[row]): _last(table, rows, int(row)) for row in last_of},
        breaks=breaks,
    )


def _first(table: BatchTable, row: int) -> tuple[int, int, int, int, int]:
    columns = (table.producer, table.position, table.base, table.epoch, table.sequence)
    producer, position, offset, epoch, sequence = (int(column[row]) for column in columns)
    return producer, position, offset, epoch, sequence


def _last(table: BatchTable, rows: Array, row: int) -> LastBatch:
    at = rows[row]
    return LastBatch(
        int(table.epoch[at]), int(table.last_sequence[at]), int(table.base[at]), int(table.last[at])
    )


class SequenceTracker:
    """The newest batch of every producer so far, table after table in log order."""

    def __init__(self) -> None:
        self.lasts: dict[int, LastBatch] = {}

    def add(self, runs: Runs) -> list[Break]:
        """Every break in this table, the ones at its beginning included."""
        breaks = []
        for producer, position, offset, epoch, sequence in runs.firsts:
            before = self.lasts.get(producer)
            if before is None:
                continue
            seen = Break(runs.file, producer, position, offset, epoch, sequence, before)
            if seen.sequence != seen.expected or seen.epoch_went_back:
                breaks.append(seen)
        self.lasts.update(runs.lasts)
        breaks += runs.breaks
        return sorted(breaks, key=lambda b: b.position)
