"""Does every batch have the leader epoch of the leader that appended it?

Leaders follow one another, so epochs do not fall along a log; and `leader-epoch-checkpoint` notes
where each of them began, by which a replica decides what to cut when it meets a new leader.

A batch's epoch is not covered by its checksum. One that rises above what comes after it is taken
for damage of that batch alone: it is named once, and neither its neighbours nor the checkpoint are
blamed for it. Where most of what follows is lower, the epochs themselves went back.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.log import names
from sexton.log.checkpoints import EpochStart, parse_epochs
from sexton.log.inspect.offset_order import out_of_order
from sexton.log.inspect.paths import SegmentFile
from sexton.log.inspect.reporting import REPLACE, Reporter, at
from sexton.log.inspect.table import BatchTable
from sexton.records.tables import Array


class LeaderEpochCheck:
    """Follows the leader epochs of a log, table after table."""

    def __init__(self, checkpoint: Path, reporter: Reporter) -> None:
        self._reporter = reporter
        self._last = -1
        self._told: set[tuple[int, int]] = set()
        self._checkpoint = self._load(checkpoint)

    def _load(self, path: Path) -> list[EpochStart]:
        try:
            data = self._reporter.read(path)
            entries = [] if data is None else parse_epochs(data, str(path))
            if any(a >= c or b >= d for (a, b), (c, d) in pairwise(entries)):
                raise CorruptLog(str(path), "its epochs and offsets do not rise")
            return entries
        except CorruptLog as error:
            self._reporter.say("corrupt-checkpoint", "error", str(path), error.why, {}, REPLACE)
            return []

    def add(self, file: SegmentFile, table: BatchTable) -> None:
        rows = np.flatnonzero(table.leader_epoch >= 0)
        epoch = table.leader_epoch[rows]
        astray = out_of_order(epoch + 1, epoch, self._last)  # an epoch may come again
        if 2 * len(astray) > len(rows):
            self._tell_regressed(file, table, rows, 0)  # not one batch: the log itself goes back
            astray = astray[:0]
        for row in astray.tolist():
            self._tell_regressed(file, table, rows, row)
        rows = np.delete(rows, astray)
        if len(rows):
            self._last = int(table.leader_epoch[rows[-1]])
        if self._checkpoint:
            self._compare(file, table, rows)

    def _tell_regressed(self, file: SegmentFile, table: BatchTable, rows: Array, row: int) -> None:
        epoch = int(table.leader_epoch[rows[row]])
        before = int(table.leader_epoch[rows[row - 1]]) if row else self._last
        message = f"leader epoch {epoch} after {before}"
        told = {"leader_epoch": epoch, "previous_leader_epoch": before}
        if epoch >= before and row + 1 < len(rows):
            after = int(table.leader_epoch[rows[row + 1]])
            message = f"leader epoch {epoch}, and {after} after it"
            told = {"leader_epoch": epoch, "next_leader_epoch": after}
        where = at(file.path, int(table.position[rows[row]]))
        self._reporter.say("leader-epoch-regressed", "error", where, message, {**told}, REPLACE)

    def _compare(self, file: SegmentFile, table: BatchTable, rows: Array) -> None:
        starts = np.array([start for _, start in self._checkpoint])
        epochs = np.array([epoch for epoch, _ in self._checkpoint])
        entry = np.searchsorted(starts, table.base[rows], side="right") - 1
        rows, entry = rows[entry >= 0], entry[entry >= 0]  # before the first, nothing is said
        for row in np.flatnonzero(table.leader_epoch[rows] != epochs[entry]).tolist():
            batch = int(rows[row])
            pair = int(table.leader_epoch[batch]), int(epochs[entry[row]])
            if pair in self._told:
                continue
            self._told.add(pair)
            self._reporter.say(
                "leader-epoch-mismatch",
                "warning",
                at(file.path, int(table.position[batch])),
                f"leader epoch {pair[0]}, but {names.EPOCHS} says {pair[1]} for offset"
                f" {table.base[batch]}",
                {"offset": int(table.base[batch]), "leader_epoch": pair[0], "checkpoint": pair[1]},
                REPLACE,
            )
