"""One partition in log order: offsets, leader epochs, producers, transactions, and every gap.

The checks of `epoch_checks`, `gaps`, `sequences`, `transactions` and `producer_checks` are fed
here, table by table. A table is cut where a producer snapshot was taken, so that the snapshot can
be compared with what was replayed up to exactly there; and where a batch could not be read. What
was known of producers and their transactions is forgotten there: that batch may have changed it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.base.findings import Evidence
from sexton.log import names
from sexton.log.checkpoints import parse_metadata
from sexton.log.inspect.epoch_checks import LeaderEpochCheck
from sexton.log.inspect.gaps import Gap, GapKeeper, holes_of
from sexton.log.inspect.paths import PartitionFiles, SegmentFile
from sexton.log.inspect.producer_checks import (
    REBUILD_SNAPSHOT,
    ProducersAt,
    TransactionIndexCheck,
    check_snapshot,
)
from sexton.log.inspect.reporting import Reporter
from sexton.log.inspect.sequences import Break, SequenceTracker, runs_of
from sexton.log.inspect.table import ABORT, COMMIT, BatchTable
from sexton.log.inspect.transactions import Transaction, TransactionTracker
from sexton.log.snapshots import ProducerEntry, parse_snapshot


class LogCheck:
    """What must hold from the first batch of a log to its last."""

    def __init__(self, partition: PartitionFiles, gaps: GapKeeper, reporter: Reporter) -> None:
        self.gaps = gaps
        self.sequences = SequenceTracker()
        self.transactions = TransactionTracker()
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.sound = True  # everything so far could be read
        self._replayed = True  # and no gap stands between two tables that nothing explains
        self._reporter = reporter
        self._ended: dict[int, int] = {}  # producer -> offset of its newest marker
        self._epochs = LeaderEpochCheck(partition.directory / names.EPOCHS, reporter)
        self._check_metadata(partition.directory / names.METADATA)
        # Without the segments before it, nothing can be said about a snapshot.
        self._snapshots = partition.snapshots() if partition.whole else []

    def add(
        self, file: SegmentFile, table: BatchTable, index: TransactionIndexCheck | None
    ) -> None:
        """The next batches, at least one."""
        self._epochs.add(file, table)
        for stretch in table.stretches():
            if stretch.damage_before[0]:
                self.lose_sight()
            start = 0
            for stop in [*self._cuts(stretch), len(stretch)]:
                if stop > start:
                    self._follow(file, stretch.rows(start, stop), index)
                start = stop

    def lose_sight(self) -> None:
        """Something that cannot be read comes next."""
        if self.last_offset is not None:
            self._judge_snapshots(self.last_offset + 1)
        self.sound = False
        self.sequences.lasts.clear()
        self.transactions.lose_sight()

    def finish(self) -> None:
        """All segments have been read."""
        end = 0 if self.last_offset is None else self.last_offset + 1
        self._judge_snapshots(end)
        for _, path in self._snapshots:  # those of what is not there
            self._load_snapshot(path)

    def _cuts(self, table: BatchTable) -> list[int]:
        """Rows before which a snapshot was taken."""
        offsets = np.array([offset for offset, _ in self._snapshots], np.int64)
        return sorted(
            {int(row) for row in np.searchsorted(table.last, offsets) if row < len(table)}
        )

    def _follow(
        self, file: SegmentFile, table: BatchTable, index: TransactionIndexCheck | None
    ) -> None:
        """Batches between two cuts."""
        if self.last_offset is not None:
            self._judge_snapshots(self.last_offset + 1)
        self._follow_offsets(file, table)
        self._judge_snapshots(int(table.base[0]))  # taken in a gap, or at its end
        self.gaps.add(holes_of(table), str(file.path))
        for seen in self.sequences.add(runs_of(table, str(file.path))):
            self._tell_break(seen)
        self._follow_transactions(file, table, index)

    # ── offsets ──

    def _follow_offsets(self, file: SegmentFile, table: BatchTable) -> None:
        before, first = self.last_offset, int(table.base[0])
        if before is None:
            self.first_offset = first
            self._explain_beginning(file, first)
        elif first > before + 1:
            gap = Gap(before + 1, first, str(file.path), int(table.position[0]))
            self._explain_between(gap, bool(table.damage_before[0]), file)
        self.last_offset = int(table.last[-1])

    def _explain_beginning(self, file: SegmentFile, first: int) -> None:
        if file.base_offset is None:
            return
        self.gaps.explain("beginning", min(file.base_offset, first))
        if not self.sound:
            self.gaps.explain("unreadable", first - file.base_offset)
        elif first > file.base_offset:
            self.gaps.trace()
            self.gaps.explain("compacted", first - file.base_offset)

    def _explain_between(self, gap: Gap, damaged: bool, file: SegmentFile) -> None:
        """A gap before the first batch of a table."""
        size = gap.end - gap.start
        if damaged:
            self.gaps.explain("unreadable", size)
        elif self.gaps.compacted:
            self.gaps.explain("compacted", size)
        elif file.base_offset is not None and gap.start <= file.base_offset < gap.end:
            # A broker rolls at the log's end, so a segment begins with its own offset unless the
            # batches there were cleaned away, here or on the leader that it copied from.
            self.gaps.trace()
            self.gaps.explain("compacted", size)
        else:
            # A segment may be gone, and markers with it.
            self._replayed = False
            self.transactions.doubt()
            self.gaps.wait(gap)

    # ── the topic's id ──

    def _check_metadata(self, path: Path) -> None:
        try:
            data = self._reporter.read(path)
            if data is not None:
                parse_metadata(data, str(path))
        except CorruptLog as error:
            remedy = "write the topic's id into it again: kafka-topics --describe shows it"
            self._reporter.say("corrupt-checkpoint", "error", str(path), error.why, {}, remedy)

    # ── producers and transactions ──

    def _tell_break(self, seen: Break) -> None:
        if seen.jump:
            self.gaps.note_jump(seen)  # only the end of the log tells whether it means anything
        elif seen.epoch_went_back:
            message = f"producer {seen.producer} has epoch {seen.epoch} after {seen.before.epoch}"
            remedy = "a fenced producer wrote here: find out who else uses its transactional.id"
            evidence = break_evidence(seen)
            self._reporter.say(
                "producer-epoch-regressed", "warning", seen.where, message, evidence, remedy
            )
        else:
            message = (
                f"producer {seen.producer} has sequence {seen.sequence} again ({seen.expected} was"
                " next): its records may be here twice"
            )
            remedy = "compare the records of this producer around this offset"
            evidence = break_evidence(seen)
            self._reporter.say(
                "sequence-repeated", "warning", seen.where, message, evidence, remedy
            )

    def _follow_transactions(
        self, file: SegmentFile, table: BatchTable, index: TransactionIndexCheck | None
    ) -> None:
        is_marker = table.is_control & (table.producer >= 0)
        ends = is_marker & ((table.marker == ABORT) | (table.marker == COMMIT))
        self._ended.update(
            zip(table.producer[ends].tolist(), table.base[ends].tolist(), strict=True)
        )
        if index is not None:
            committed = table.base[is_marker & (table.marker == COMMIT)]
            for finding in index.committed(committed.tolist()):
                self._reporter.tell(finding)
        for transaction in self.transactions.add(table):
            self._judge_ended(file, transaction, index)

    def _judge_ended(
        self, file: SegmentFile, transaction: Transaction, index: TransactionIndexCheck | None
    ) -> None:
        if transaction.marker_epoch < transaction.epoch:
            self._reporter.say(
                "marker-epoch-too-old",
                "warning",
                f"{file.path} at offset {transaction.marker}",
                f"the marker has producer epoch {transaction.marker_epoch}, older than the"
                f" {transaction.epoch} of the data it ends",
                {"producer_id": transaction.producer, "first_offset": transaction.first},
                "compare how the transaction ended on the other replicas",
            )
        if transaction.outcome == ABORT and index is not None:
            for finding in index.aborted(transaction):
                self._reporter.tell(finding)

    # ── snapshots ──

    def _judge_snapshots(self, offset: int) -> None:
        """All batches below `offset` have been followed."""
        while self._snapshots and self._snapshots[0][0] <= offset:
            taken, path = self._snapshots.pop(0)
            self._judge_snapshot(taken, path)

    def _judge_snapshot(self, taken: int, path: Path) -> None:
        entries = self._load_snapshot(path)
        if entries is None or self.first_offset is None:
            return
        if taken <= self.first_offset or not (self.sound and self._replayed):
            return  # it speaks of what is gone, or the replay has holes
        shown = ProducersAt(
            offset=taken,
            log_start=self.first_offset,
            compacted=self.gaps.compacted,
            lasts=self.sequences.lasts,
            open=self.transactions.open,
            ended=self._ended,
        )
        for finding in check_snapshot(path, entries, shown):
            self._reporter.tell(finding)

    def _load_snapshot(self, path: Path) -> list[ProducerEntry] | None:
        data = self._reporter.read(path)
        try:
            return None if data is None else parse_snapshot(data, str(path))
        except CorruptLog as error:
            remedy = REBUILD_SNAPSHOT
            self._reporter.say("corrupt-snapshot", "error", str(path), error.why, {}, remedy)
            return None


def break_evidence(seen: Break) -> dict[str, Evidence]:
    """What a person needs to find the two batches."""
    return {
        "producer_id": seen.producer,
        "offset": seen.offset,
        "epoch": seen.epoch,
        "sequence": seen.sequence,
        "expected_sequence": seen.expected,
        "previous_epoch": seen.before.epoch,
        "previous_offset": seen.before.last,
    }
