"""Is every byte of this log what a broker would have written?

Chunks are decoded in threads, which checks every CRC and every record's bounds. What their batches
say is then followed in log order, one table of headers at a time:

    each batch      offsets rise, inside its segment; leader epochs do not fall, and agree with
                    `leader-epoch-checkpoint`
    each producer   sequences go on where they stopped; transactions are opened and ended
    each file       .index and .timeindex point at batches, .txnindex lists what was aborted,
                    .snapshot agrees with the producers that were replayed up to its offset
    each offset     has a record, or a reason why not (see `gaps`)

What is wrong becomes a Finding and the work goes on: one bad batch must not hide the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from sexton.base.findings import Evidence, Finding, Severity
from sexton.log.inspect.gaps import Gap, GapKeeper
from sexton.log.inspect.log_checks import LogCheck, break_evidence
from sexton.log.inspect.offset_order import Bounds, judge_places
from sexton.log.inspect.paths import PartitionFiles, SegmentFile
from sexton.log.inspect.reading import Advance, Chunk, Done, Tail, decoded, work_through
from sexton.log.inspect.reporting import REPLACE, Reporter, at
from sexton.log.inspect.segment_checks import SegmentCheck, load_transaction_index
from sexton.log.inspect.sequences import Break
from sexton.log.inspect.table import BatchTable, Damage, TableBuilder
from sexton.records import BadBatch, Decoder
from sexton.records.layout import NO_LEADER_EPOCH

Policy = Literal["auto", "compact", "delete"]

# Kafka's own topics that are compacted whatever the broker's settings say.
ALWAYS_COMPACTED = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@dataclass(slots=True)
class Verdict:
    """What was looked at, and what there is to know beside findings."""

    partition: str
    segments: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0  # data records: what consumers may see
    first_offset: int | None = None
    next_offset: int | None = None
    last_stable_offset: int | None = None  # None: empty, or something could not be read
    committed: int = 0  # transactions
    aborted: int = 0
    open_transactions: int = 0
    transactions_in_doubt: int = 0  # those that may have ended in a batch that cannot be read
    missing: dict[str, int] = field(default_factory=dict)  # offsets without a record, by reason
    findings: Counter[Severity] = field(default_factory=Counter)


def verify(
    partition: PartitionFiles,
    report: Callable[[Finding], None],
    skip: Callable[[str, str], None],
    *,
    policy: Policy = "auto",
    advance: Advance = lambda _count: None,
    workers: int | None = None,
) -> Verdict:
    """Looks at every byte; tells `report` what is wrong, and `skip` what could not be read."""
    check = _PartitionCheck(partition, Reporter(report, skip), policy)
    for step in work_through(partition.segments, _examine, advance, workers):
        if isinstance(step, Done):
            check.add(step.segment, step.result)
        else:
            check.end_segment(*step)
    return check.finish()


@dataclass(frozen=True, slots=True)
class _Examined:
    """A chunk after every record in it was decoded."""

    table: BatchTable
    records: int  # data, no markers
    end: int  # file position
    bad: list[tuple[int, BadBatch]]  # with its file position


def _examine(segment: SegmentFile, chunk: Chunk, decoder: Decoder) -> _Examined:
    builder, records = TableBuilder(chunk), 0
    for part in decoded(chunk, decoder, str(segment.path)):
        builder.add(part)
        records += len(part.columns) - int(part.columns.is_control.sum())
    return _Examined(builder.table(), records, chunk.end, builder.bad)


class _PartitionCheck:
    """Hands what was examined to the checks of the segment and of the whole log."""

    def __init__(self, partition: PartitionFiles, reporter: Reporter, policy: Policy) -> None:
        self._partition = partition
        self._reporter = reporter
        self._policy = policy
        self._verdict = Verdict(partition.name)
        self._transaction_indexes = {
            s.path: load_transaction_index(s, reporter) for s in partition.segments
        }
        aborted = [
            (entry.first_offset, entry.last_offset)
            for index in self._transaction_indexes.values()
            for entry in (index.entries if index else [])
        ]
        self._gaps = GapKeeper(_known_compacted(partition, policy), sorted(aborted))
        self._log = LogCheck(partition, self._gaps, reporter)
        self._segment: SegmentCheck | None = None
        self._damage = Damage()
        self._held: tuple[SegmentFile, _Examined] | None = None

    def add(self, file: SegmentFile, seen: _Examined) -> None:
        """The next chunk. It is held back until what follows it is known."""
        begins = seen.table.base[:2].tolist()  # of two batches, one may be out of place itself
        self._follow_held(max(begins, default=None))
        self._held = file, seen

    def _follow_held(self, before: int | None) -> None:
        """`before`: an offset that the batches after the held ones begin with, if there are any."""
        if self._held is None:
            return
        (file, seen), self._held = self._held, None
        segment = self._open(file)
        for position, bad in seen.bad:
            self._reporter.bad_batch(file.path, position, bad)
        self._verdict.records += seen.records
        self._verdict.batches += len(seen.table) + len(seen.bad)
        table, nonsense = self._with_sense(file, seen.table)
        table, astray = self._in_place(segment, table, before)
        positions = [*(position for position, _ in seen.bad), *nonsense, *astray]
        unreadable = np.array(sorted(positions), np.int64)
        self._damage.carry(table, unreadable)
        segment.add(table, seen.end, unreadable)
        if len(table):
            self._log.add(file, table, segment.transaction_index)

    def _in_place(
        self, segment: SegmentCheck, table: BatchTable, before: int | None
    ) -> tuple[BatchTable, list[int]]:
        """The batches whose offsets can be theirs, and the positions of the others."""
        file = segment.file
        bounds = Bounds(file.base_offset, self._next_begins(file), self._log.last_offset, before)
        placement = judge_places(table, bounds)
        for astray in [] if segment.misplaced else placement.astray:
            evidence: dict[str, Evidence] = {"base_offset": int(table.base[astray.row])}
            where = at(segment.file.path, int(table.position[astray.row]))
            self._reporter.say(astray.code, "error", where, astray.message, evidence, REPLACE)
        segment.misplaced |= placement.whole
        if segment.misplaced:
            rows = np.arange(len(table))
        else:
            rows = np.array([astray.row for astray in placement.astray], np.int64)
        return table.without(rows), table.position[rows].tolist()

    def _next_begins(self, file: SegmentFile) -> int | None:
        """The base offset of the segment after this one."""
        after = self._partition.onwards(file)[1:]
        return after[0].base_offset if after else None

    def _with_sense(self, file: SegmentFile, table: BatchTable) -> tuple[BatchTable, list[int]]:
        """Leaves out batches whose headers are whole and that no broker writes."""
        nameless = table.is_control & (table.count > 0) & (table.marker < 0)
        nobody = table.is_transactional & (table.producer < 0)
        no_epoch = table.leader_epoch < NO_LEADER_EPOCH
        for rows, message in (
            (nameless, "a control record's key is too short to say what it is"),
            (nobody, "written in a transaction, but without a producer id"),
            (no_epoch, "its leader epoch is a negative number"),
        ):
            for row in np.flatnonzero(rows).tolist():
                where = at(file.path, int(table.position[row]))
                evidence: dict[str, Evidence] = {"base_offset": int(table.base[row])}
                self._reporter.say("corrupt-batch", "error", where, message, evidence, REPLACE)
        left_out = np.flatnonzero(nameless | nobody | no_epoch)
        return table.without(left_out), table.position[left_out].tolist()

    def _open(self, file: SegmentFile) -> SegmentCheck:
        if self._segment is None:
            self._segment = SegmentCheck(file, self._transaction_indexes[file.path], self._reporter)
        return self._segment

    def end_segment(self, file: SegmentFile, tail: Tail) -> None:
        tail = self._with_its_cause(tail)
        self._follow_held(None)
        segment, log = self._open(file), self._log
        self._segment = None
        self._verdict.segments += 1
        self._verdict.bytes += tail.position + tail.size
        active = self._partition.is_active(file)
        end = None if log.last_offset is None else log.last_offset + 1
        segment.finish(tail, end, active=active, damaged=self._damage.pending)
        self._damage.pending |= not tail.is_sound and not (active and tail.kind == "torn")

    def _with_its_cause(self, tail: Tail) -> Tail:
        """Where a bad batch ends there is none: then its length is wrong, and that is all."""
        if self._held is None or tail.kind != "damaged":
            return tail
        file, seen = self._held
        position, bad = seen.bad[-1] if seen.bad else (-1, None)
        if bad is None or (len(seen.table) and position < seen.table.position[-1]):
            return tail
        self._held = file, replace(seen, bad=seen.bad[:-1], end=position)
        why = f"{bad.why}; and where it says that it ends, no batch begins"
        return Tail("damaged", position, tail.position + tail.size - position, why)

    def finish(self) -> Verdict:
        log, verdict = self._log, self._verdict
        if self._damage.pending:
            log.lose_sight()
        log.finish()
        self._judge_gaps()
        verdict.first_offset = log.first_offset
        if log.last_offset is not None:
            verdict.next_offset = log.last_offset + 1
            verdict.last_stable_offset = log.transactions.last_stable(verdict.next_offset)
        verdict.committed = log.transactions.committed
        verdict.aborted = log.transactions.aborted
        verdict.open_transactions = len(log.transactions.open)
        verdict.transactions_in_doubt = len(log.transactions.in_doubt)
        verdict.missing = {reason: n for reason, n in self._gaps.offsets.items() if n}
        self._reporter.finish()
        verdict.findings = self._reporter.counts
        return verdict

    def _judge_gaps(self) -> None:
        across: set[Break] = set()
        for gap, jumps in self._gaps.finish(never_compacted=self._policy == "delete"):
            across.update(jumps)
            self._tell_gap(gap, jumps[0] if jumps else None)
        for jump in self._gaps.jumps:
            if jump not in across:
                message = (
                    f"producer {jump.producer} goes on with sequence {jump.sequence},"
                    f" {jump.expected} was next"
                )
                remedy = "compare the records of this producer with those of other replicas"
                evidence = break_evidence(jump)
                severity, message = self._weakened(message)
                self._reporter.say("sequence-gap", severity, jump.where, message, evidence, remedy)

    def _weakened(self, message: str) -> tuple[Severity, str]:
        """A batch that cannot be read may hold the trace of compaction that explains it all."""
        if self._log.sound or self._policy == "delete":
            return "warning", message
        return "note", f"{message}; what cannot be read of this log may explain it"

    def _tell_gap(self, gap: Gap, jump: Break | None) -> None:
        where = f"{gap.file} at byte {gap.position}"
        which = f"offsets {gap.start} to {gap.end - 1}"
        if gap.end - gap.start == 1:
            which = f"offset {gap.start}"
        evidence: dict[str, Evidence] = {
            "first_offset": gap.start,
            "last_offset": gap.end - 1,
            "count": gap.end - gap.start,
        }
        if jump is not None:
            evidence |= {"producer_id": jump.producer, "sequence": jump.sequence}
            evidence["expected_sequence"] = jump.expected
        if jump is not None and self._policy == "delete":
            message = f"{which} had records of producer {jump.producer}, and they are gone"
            self._reporter.say("records-lost", "error", where, message, evidence, REPLACE)
            return
        remedy = "compare with the other replicas"
        if self._policy == "auto":
            remedy += "; if the topic is compacted this is normal: say --cleanup-policy compact"
        severity, message = self._weakened(f"{which}: no batch, and nothing in the log says why")
        self._reporter.say("offset-gap", severity, where, message, evidence, remedy)


def _known_compacted(partition: PartitionFiles, policy: Policy) -> bool:
    if policy != "auto":
        return policy == "compact"
    topic = partition.directory.name.rpartition("-")[0]
    return topic in ALWAYS_COMPACTED or partition.cleaned_to is not None
