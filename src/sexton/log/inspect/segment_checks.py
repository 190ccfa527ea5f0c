"""One segment and the files beside it: how it begins and ends, and where its indexes point."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.base.findings import Evidence, Finding
from sexton.log import names
from sexton.log.indexes import AbortedTransaction, parse_aborted
from sexton.log.inspect.index_checks import (
    OffsetIndexCheck,
    TimeIndexCheck,
    offset_index,
    time_index,
)
from sexton.log.inspect.paths import SegmentFile
from sexton.log.inspect.producer_checks import REBUILD_TXN_INDEX, TransactionIndexCheck
from sexton.log.inspect.reading import Tail
from sexton.log.inspect.reporting import REPLACE, Reporter, at
from sexton.log.inspect.table import BatchTable
from sexton.records.tables import Array

MOST_RELATIVE_OFFSET = (1 << 31) - 1
RESTART = "nothing: a broker cuts the log here when it starts, and a running one is still writing"


class SegmentCheck:
    """Follows one segment from its first batch to its tail."""

    def __init__(
        self, file: SegmentFile, txn_index: TransactionIndexCheck | None, reporter: Reporter
    ) -> None:
        self.file = file
        self.txn_index = txn_index
        self.began = False
        self._reporter = reporter
        self._offsets: OffsetIndexCheck | None = None
        self._times: TimeIndexCheck | None = None
        if file.base_offset is not None:
            path = file.beside(names.OFFSET_INDEX)
            data = reporter.read(path)
            if data is not None:
                self._offsets = OffsetIndexCheck(offset_index(path, data, file.base_offset))
            path = file.beside(names.TIME_INDEX)
            data = reporter.read(path)
            if data is not None:
                self._times = TimeIndexCheck(time_index(path, data, file.base_offset))

    def add(self, table: BatchTable, end: int, unreadable: Array) -> None:
        """One more table, which ends at file position `end`."""
        if not self.began:
            self.began = True
            self._begin(table)
        self._check_span(table)
        if self._offsets is not None:
            self._offsets.add(table, end, unreadable)
        if self._times is not None:
            self._times.add(table)

    def _begin(self, table: BatchTable) -> None:
        first, named = int(table.base[0]), self.file.base_offset
        if named is not None and first < named:
            self._reporter.say(
                "offset-before-segment",
                "error",
                at(self.file.path, int(table.position[0])),
                f"begins with offset {first}, but the segment's name says {named}",
                {"base_offset": first, "segment": named},
                REPLACE,
            )

    def _check_span(self, table: BatchTable) -> None:
        """An index notes offsets in 32 bits from the segment's own; no batch may be further."""
        named = self.file.base_offset
        if named is None:
            return
        for row in np.flatnonzero(table.last - named > MOST_RELATIVE_OFFSET).tolist():
            last = int(table.last[row])
            self._reporter.say(
                "offset-past-segment",
                "error",
                at(self.file.path, int(table.position[row])),
                f"ends with offset {last}, too far from {named}, where the segment begins",
                {"last_offset": last, "segment": named},
                REPLACE,
            )

    def finish(self, tail: Tail, end: int | None, *, active: bool, sound: bool) -> None:
        """`end`: the offset after the last one; `sound`: everything up to here could be read."""
        judge_tail(self.file, tail, self._reporter, active=active)
        if tail.kind not in ("end", "preallocated"):
            return  # what an index says of the rest cannot be judged
        if self._offsets is not None:
            self._tell(self._offsets.finish(tail.position))
        if self._times is not None:
            self._tell(self._times.finish())
        if self.txn_index is not None and sound and self.file.base_offset is not None:
            first = self.file.base_offset
            self._tell(self.txn_index.finish(first, first if end is None else end))

    def _tell(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._reporter.tell(finding)


def judge_tail(file: SegmentFile, tail: Tail, reporter: Reporter, *, active: bool) -> None:
    """How the file ends; only the active segment may end in the middle of a batch."""
    where = at(file.path, tail.position)
    evidence: dict[str, Evidence] = {"unread_bytes": tail.size}
    match tail.kind:
        case "end":
            pass
        case "unreadable":
            reporter.skip(where, tail.why)
        case "old-format":
            reporter.skip(where, f"{tail.why}; {tail.size} bytes were not read")
        case "preallocated":
            message = f"{tail.size} zero bytes at the end: the file was preallocated"
            reporter.say("preallocated-tail", "note", where, message, evidence)
        case "torn" if active:
            message = f"the log ends in the middle of a batch: {tail.why}"
            reporter.say("torn-tail", "warning", where, message, evidence, RESTART)
        case "torn":
            message = f"the segment ends in the middle of a batch: {tail.why}"
            reporter.say("torn-segment", "error", where, message, evidence, REPLACE)
        case "damaged":
            message = f"{tail.why}; the {tail.size} bytes from here on cannot be read"
            reporter.say("corrupt-header", "error", where, message, evidence, REPLACE)


def load_txn_index(file: SegmentFile, reporter: Reporter) -> TransactionIndexCheck | None:
    """The aborted transactions that the segment's index lists; None if it cannot be parsed."""
    path = file.beside(names.TRANSACTION_INDEX)
    entries: list[AbortedTransaction] = []
    try:
        entries = parse_aborted(reporter.read(path) or b"", str(path))
    except CorruptLog as error:
        remedy = REBUILD_TXN_INDEX
        reporter.say("corrupt-txn-index", "error", error.subject, error.why, {}, remedy)
        return None
    return TransactionIndexCheck(path, entries)
