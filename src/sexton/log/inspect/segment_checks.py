"""One segment and the files beside it: how it begins and ends, and where its indexes point."""

from __future__ import annotations

from collections.abc import Iterable

from sexton.base.errors import CorruptLog
from sexton.base.findings import Evidence, Finding
from sexton.log import names
from sexton.log.indexes import parse_aborted
from sexton.log.inspect.index_checks import (
    REBUILD_INDEXES,
    OffsetIndexCheck,
    TimeIndexCheck,
    offset_index,
    time_index,
)
from sexton.log.inspect.paths import SegmentFile
from sexton.log.inspect.producer_checks import TransactionIndexCheck
from sexton.log.inspect.reading import Tail
from sexton.log.inspect.reporting import REPLACE, Reporter, at
from sexton.log.inspect.table import BatchTable
from sexton.records.tables import Array

RESTART = "nothing: a broker cuts the log here when it starts, and a running one is still writing"


class SegmentCheck:
    """Follows one segment from its first batch to its tail."""

    def __init__(
        self, file: SegmentFile, transaction_index: TransactionIndexCheck | None, reporter: Reporter
    ) -> None:
        self.file = file
        self.transaction_index = transaction_index
        self.misplaced = False  # as a whole: it must be the file of another place
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
        """One more table, which ends at file position `end`.

        Batches begin at the positions `unreadable` too, but nobody knows what they hold.
        """
        if self._offsets is not None:
            self._offsets.add(table, end, unreadable)
        if self._times is not None:
            self._times.add(table)

    def finish(self, tail: Tail, end: int | None, *, active: bool, damaged: bool) -> None:
        """The segment ends with `tail`, and with the offset before `end`.

        `damaged`: its last batches could not be read, so its indexes may know more than we do.
        """
        judge_tail(self.file, tail, self._reporter, active=active)
        if self.misplaced:
            return  # its indexes are with the other one
        if self._offsets is not None:
            self._tell(self._offsets.finish(tail, damaged=damaged))
        if self._times is not None:
            self._tell(self._times.finish(tail, damaged=damaged))
        if self.transaction_index is not None and tail.is_sound and not damaged:
            first = self.file.base_offset
            if first is not None:
                self._tell(self.transaction_index.finish(first, first if end is None else end))

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


def load_transaction_index(file: SegmentFile, reporter: Reporter) -> TransactionIndexCheck | None:
    """The aborted transactions that the segment's index lists; None if it cannot be judged.

    A segment without aborted transactions has no such file. One without any index is a copy of the
    records alone: a broker would build all of them anew.
    """
    path = file.beside(names.TRANSACTION_INDEX)
    if not path.exists() and not file.beside(names.OFFSET_INDEX).exists():
        return None
    try:
        return TransactionIndexCheck(path, parse_aborted(reporter.read(path) or b"", str(path)))
    except CorruptLog as error:
        remedy = REBUILD_INDEXES
        reporter.say("corrupt-txn-index", "error", error.subject, error.why, {}, remedy)
        return None
