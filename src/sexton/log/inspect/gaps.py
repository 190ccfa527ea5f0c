"""Why is there no record at this offset?

Offsets are given out one after the other, so every one that no longer has a record has a reason:

    control-marker   it is a COMMIT or ABORT marker, which consumers never see
    aborted          its transaction was aborted, and the cleaner removed it
    compacted        the cleaner removed it, or emptied its batch
    beginning        it is before the first batch: retention or DeleteRecords removed it
    unreadable       a damaged batch stands there
    lost             its producer sent it, the broker took it, and it is gone
    unknown          nothing in the log says

A batch that shows traces of cleaning (records missing inside, emptied, a delete horizon) proves
that the topic is compacted, and so explains every gap: replicas copy each other's gaps. Gaps that
still wait at the end are unknown. A log alone cannot tell a lost record from one that was
compacted away with its whole batch, and nobody here pretends that it can. Only if somebody says
that the topic was never compacted, a producer's sequence that jumps across a gap proves a loss: the
broker has had these records.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from sexton.log.inspect.sequences import Break
from sexton.log.inspect.table import BatchTable
from sexton.records.tables import Array

REASONS = (
    "control-marker",
    "aborted",
    "compacted",
    "beginning",
    "unreadable",
    "lost",
    "unknown",
)
MOST_KEPT = 20  # of what waits for an explanation, to name in a finding


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [start, end) that no batch covers, before the batch at `position` of `file`."""

    start: int
    end: int
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Holes:
    """Where offsets are missing in one table."""

    start: Array  # between two of its batches: the offsets [start, end)
    end: Array
    position: Array  # of the batch after it
    inside: int  # offsets missing inside batches
    markers: int  # offsets of control records
    traces: bool  # some batch shows that the cleaner was here


def holes_of(table: BatchTable) -> Holes:
    """Everything that is not a data record, in a table of batches that could all be read."""
    control = table.is_control
    span = table.last - table.base + 1
    missing = np.where(control, 0, span - table.count)
    traces = (missing > 0) | table.has_horizon | (control & (table.count == 0))
    hole = np.flatnonzero(table.base[1:] > table.last[:-1] + 1)
    return Holes(
        start=table.last[hole] + 1,
        end=table.base[hole + 1],
        position=table.position[hole + 1],
        inside=int(missing.sum()),
        markers=int(span[control].sum()),
        traces=bool(traces.any()),
    )


@dataclass(slots=True)
class GapKeeper:
    """Explains the gaps of one log, table after table in log order."""

    compacted: bool  # known from outside, such as the cleaner's checkpoint; or traces were seen
    aborted: list[tuple[int, int]]  # ranges [first, marker] of the transaction indexes, sorted
    offsets: Counter[str] = field(default_factory=Counter)  # by reason
    gaps: Counter[str] = field(default_factory=Counter)  # stretches of them, by reason
    waiting: list[Gap] = field(default_factory=list)  # the first of those nobody has explained
    waiting_gaps: int = 0
    waiting_offsets: int = 0
    jumps: list[Break] = field(default_factory=list)  # of sequences, as long as nothing was cleaned

    def explain(self, reason: str, offsets: int, gaps: int = 1) -> None:
        if offsets:
            self.offsets[reason] += offsets
            self.gaps[reason] += gaps

    def trace(self) -> None:
        """The cleaner has been here."""
        self.compacted = True
        self.explain("compacted", self.waiting_offsets, self.waiting_gaps)
        self.waiting, self.jumps = [], []
        self.waiting_gaps = self.waiting_offsets = 0

    def add(self, holes: Holes, file: str) -> None:
        """One more table."""
        if holes.traces:
            self.trace()
        self.explain("control-marker", holes.markers, holes.markers)
        self.explain("compacted", holes.inside)
        if len(holes.start):
            self._add_between(holes, file)

    def _add_between(self, holes: Holes, file: str) -> None:
        reasons = self._reasons(holes)
        size = holes.end - holes.start
        for reason in ("aborted", "compacted"):
            mine = reasons == reason
            self.explain(reason, int(size[mine].sum()), int(mine.sum()))
        for row in np.flatnonzero(reasons == "unknown").tolist():
            gap = Gap(int(holes.start[row]), int(holes.end[row]), file, int(holes.position[row]))
            self.wait(gap)

    def wait(self, gap: Gap) -> None:
        """Nobody knows yet."""
        self.waiting_gaps += 1
        self.waiting_offsets += gap.end - gap.start
        if len(self.waiting) < MOST_KEPT:
            self.waiting.append(gap)

    def _reasons(self, holes: Holes) -> Array:
        reasons = np.full(len(holes.start), "compacted" if self.compacted else "unknown", "U10")
        if self.aborted:
            firsts = np.array([first for first, _ in self.aborted])
            furthest = np.maximum.accumulate(np.array([marker for _, marker in self.aborted]))
            row = np.searchsorted(firsts, holes.start, side="right") - 1
            within = (row >= 0) & (holes.end <= furthest[np.maximum(row, 0)])
            reasons[within] = "aborted"
        return reasons

    def note_jump(self, jump: Break) -> None:
        """A producer's sequence left numbers out: proof of a loss where nothing was cleaned."""
        if not self.compacted and len(self.jumps) < MOST_KEPT:
            self.jumps.append(jump)

    def finish(self, never_compacted: bool) -> list[tuple[Gap, list[Break]]]:
        """The gaps that stay unexplained, each with the jumps of sequences across it."""
        found: list[tuple[Gap, list[Break]]] = []
        for gap in self.waiting:
            jumps = [j for j in self.jumps if j.before.last < gap.start <= j.offset]
            lost = never_compacted and bool(jumps)
            self.explain("lost" if lost else "unknown", gap.end - gap.start)
            self.waiting_offsets -= gap.end - gap.start
            found.append((gap, jumps))
        self.explain("unknown", self.waiting_offsets, self.waiting_gaps - len(self.waiting))
        return found
