"""Do the files that summarise a log's producers agree with the log?

    .txnindex   the aborted transactions whose marker is in the segment: a read_committed consumer
                hides what it says, and nothing else
    .snapshot   what the broker knew of its producers at one offset, and believes after a restart

Both outlive what they tell of. Cleaning removes aborted records first and the index entry at its
next pass; retention removes the batches a snapshot speaks of. So only a contradiction counts: a
statement about something that is still in the log, and is otherwise there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sexton.base.findings import Finding
from sexton.log.indexes import ABORTED_BYTES, AbortedTransaction
from sexton.log.inspect.index_checks import REBUILD_INDEXES
from sexton.log.inspect.sequences import LastBatch
from sexton.log.inspect.transactions import Transaction
from sexton.log.snapshots import ProducerEntry

# Without any snapshot, a broker that was stopped cleanly takes its producers for none at all, and
# does not read the log (UnifiedLog.rebuildProducerState).
REBUILD_SNAPSHOT = (
    "stop the broker and delete the snapshot: the broker goes on from the one before it; if there"
    " is none before it, let this replica copy the partition from a healthy one instead"
)


@dataclass(slots=True)
class TransactionIndexCheck:
    """One segment's index beside the aborted transactions that the log shows."""

    path: Path
    entries: list[AbortedTransaction]
    _rows: dict[int, int] = field(init=False)  # marker offset -> entry

    def __post_init__(self) -> None:
        self._rows = {entry.last_offset: row for row, entry in enumerate(self.entries)}

    def aborted(self, transaction: Transaction) -> Iterator[Finding]:
        """The log shows a transaction whose ABORT marker is in this segment."""
        row = self._rows.pop(transaction.marker, None)
        told = {
            "producer_id": transaction.producer,
            "first_offset": transaction.first,
            "marker_offset": transaction.marker,
        }
        if row is None:
            if transaction.holds_records:
                yield self._finding(
                    None,
                    f"does not list the transaction that was aborted at {transaction.marker}:"
                    " read_committed consumers get its records",
                    told,
                )
            return
        entry = self.entries[row]
        if entry.producer_id != transaction.producer:
            message = f"names producer {entry.producer_id}, the marker is of {transaction.producer}"
            yield self._finding(row, message, told)
        elif entry.first_offset > transaction.first and transaction.holds_records:
            message = (
                f"begins at offset {entry.first_offset}, but the log has records of this"
                f" transaction from {transaction.first} on"
            )
            yield self._finding(row, message, told)

    def committed(self, markers: Iterable[int]) -> Iterator[Finding]:
        """The segment has COMMIT markers at these offsets."""
        for offset in self._rows.keys() & set(markers) if self._rows else ():
            row = self._rows.pop(offset)
            told = {"producer_id": self.entries[row].producer_id, "marker_offset": offset}
            message = f"says aborted, but the marker at offset {offset} is a COMMIT"
            yield self._finding(row, message, told)

    def finish(self, first: int, end: int) -> Iterator[Finding]:
        """The segment covers the offsets [first, end); what is left has no data in the log."""
        for offset, row in sorted(self._rows.items()):
            entry = self.entries[row]
            told = {"producer_id": entry.producer_id, "marker_offset": offset}
            if not first <= offset < end:
                message = f"tells of a marker at offset {offset}, which is not in this segment"
                yield self._finding(row, message, told)
            elif entry.first_offset > offset or entry.first_offset < 0:
                message = f"begins at offset {entry.first_offset} and ends before, at {offset}"
                yield self._finding(row, message, told)

    def _finding(self, row: int | None, message: str, told: dict[str, int]) -> Finding:
        where = str(self.path) if row is None else f"{self.path} at byte {row * ABORTED_BYTES}"
        return Finding("txn-index-mismatch", "error", where, message, told, REBUILD_INDEXES)


@dataclass(frozen=True, slots=True)
class ProducersAt:
    """What the log shows of its producers, all batches below one offset read."""

    offset: int
    log_start: int  # nothing below it is there
    compacted: bool  # batches may have been cleaned away
    lasts: Mapping[int, LastBatch]
    open: Mapping[int, Transaction]
    ended: Mapping[int, int]  # producer -> offset of its newest marker


def check_snapshot(path: Path, entries: list[ProducerEntry], log: ProducersAt) -> Iterator[Finding]:
    """Each entry beside what the log shows; silent where the log no longer can tell."""
    for entry in entries:
        for message, told in _contradictions(entry, log):
            evidence = {"producer_id": entry.producer_id, "offset": log.offset} | told
            yield Finding(
                "snapshot-mismatch", "error", str(path), message, evidence, REBUILD_SNAPSHOT
            )


def _contradictions(entry: ProducerEntry, log: ProducersAt) -> Iterator[tuple[str, dict[str, int]]]:
    who = f"producer {entry.producer_id}"
    last = log.lasts.get(entry.producer_id)
    if last is not None and entry.last_offset >= 0:
        told = {"last_offset": entry.last_offset, "log_last_offset": last.last}
        if last.last > entry.last_offset:
            yield f"{who}: ends at {entry.last_offset}, the log has its batch at {last.last}", told
        elif last.last == entry.last_offset and last.last_sequence != entry.last_sequence:
            told = {"last_sequence": entry.last_sequence, "log_last_sequence": last.last_sequence}
            message = f"{who}: last sequence {entry.last_sequence}, in the log {last.last_sequence}"
            yield message, told
        elif last.last < entry.last_offset and _still_there(entry.last_offset, log):
            yield f"{who}: tells of a batch at {entry.last_offset} that the log does not have", told
    yield from _transaction_contradictions(entry, log)


def _transaction_contradictions(
    entry: ProducerEntry, log: ProducersAt
) -> Iterator[tuple[str, dict[str, int]]]:
    who = f"producer {entry.producer_id}"
    shown = log.open.get(entry.producer_id)
    said = entry.open_first_offset
    if shown is None and said >= 0:
        marker = log.ended.get(entry.producer_id, -1)
        if marker > said:
            told = {"open_first_offset": said, "marker_offset": marker}
            yield f"{who}: a transaction open since {said}, which the log ends at {marker}", told
        elif _still_there(said, log):
            told = {"open_first_offset": said}
            yield f"{who}: a transaction open since {said}, of which the log has nothing", told
    elif shown is not None and said != shown.first:
        told = {"open_first_offset": said, "log_open_first_offset": shown.first}
        if said < 0:
            yield f"{who}: no open transaction, the log has one since {shown.first}", told
        elif said > shown.first or _still_there(said, log):
            yield f"{who}: a transaction open since {said}, in the log since {shown.first}", told


def _still_there(offset: int, log: ProducersAt) -> bool:
    """Would the log have this batch, if it ever was there?"""
    return offset >= log.log_start and not log.compacted
