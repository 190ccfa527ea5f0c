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
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sexton.base.findings import Evidence, Finding, Severity
from sexton.log.inspect.gaps import Gap, GapKeeper
from sexton.log.inspect.log_checks import LogCheck, break_evidence
from sexton.log.inspect.paths import PartitionFiles, SegmentFile
from sexton.log.inspect.reading import Advance, Chunk, Done, Tail, decoded, work_through
from sexton.log.inspect.reporting import REPLACE, Reporter, at
from sexton.log.inspect.segment_checks import SegmentCheck, load_txn_index
from sexton.log.inspect.sequences import Break
from sexton.log.inspect.table import BatchTable, controls_in, table_of
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
    last_stable_offset: int | None = None
    committed: int = 0  # transactions
    aborted: int = 0
    open_transactions: int = 0
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
    controls, bad, bad_rows, records = [], [], [], 0
    position = chunk.file_position
    for part in decoded(chunk, decoder, str(segment.path)):
        controls.append(controls_in(part))
        records += len(part.columns) - int(part.columns.is_control.sum())
        for batch in part.bad:
            row = part.first + batch.index
            bad.append((int(position[row]), batch))
            bad_rows.append(row)
    table = table_of(chunk, controls, np.array(bad_rows, np.int64))
    return _Examined(table, records, chunk.end, bad)


class _PartitionCheck:
    """Hands what was examined to the checks of the segment and of the whole log."""

    def __init__(self, partition: PartitionFiles, reporter: Reporter, policy: Policy) -> None:
        self._partition = partition
        self._reporter = reporter
        self._policy = policy
        self._verdict = Verdict(partition.name)
        self._txn_indexes = {s.path: load_txn_index(s, reporter) for s in partition.segments}
        aborted = [
            (entry.first_offset, entry.last_offset)
            for index in self._txn_indexes.values()
            for entry in (index.entries if index else [])
        ]
        self._gaps = GapKeeper(_known_compacted(partition, policy), sorted(aborted))
        self._log = LogCheck(partition, self._gaps, reporter)
        self._segment: SegmentCheck | None = None

    def add(self, file: SegmentFile, seen: _Examined) -> None:
        segment, table = self._open(file), seen.table
        for position, bad in seen.bad:
            evidence: dict[str, Evidence] = {"base_offset": bad.base_offset}
            where = at(file.path, position)
            self._reporter.say("corrupt-batch", "error", where, bad.why, evidence, REPLACE)
        self._verdict.records += seen.records
        self._verdict.batches += len(table) + len(seen.bad)
        if len(table):
            self._tell_nonsense(file, table)
            unreadable = np.array([position for position, _ in seen.bad], np.int64)
            segment.add(table, seen.end, unreadable)
            self._log.add(file, table, segment.txn_index)
        self._log.sound &= not seen.bad

    def _tell_nonsense(self, file: SegmentFile, table: BatchTable) -> None:
        """Headers that are whole and that no broker writes."""
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

    def _open(self, file: SegmentFile) -> SegmentCheck:
        if self._segment is None:
            self._segment = SegmentCheck(file, self._txn_indexes[file.path], self._reporter)
        return self._segment

    def end_segment(self, file: SegmentFile, tail: Tail) -> None:
        segment, log = self._open(file), self._log
        self._segment = None
        self._verdict.segments += 1
        self._verdict.bytes += tail.position + tail.size
        partition = self._partition
        active = file is partition.segments[-1] and not partition.later
        end = None if log.last_offset is None else log.last_offset + 1
        segment.finish(tail, end, active=active, sound=log.sound)
        log.sound &= tail.kind in ("end", "preallocated")
        after = partition.segments[partition.segments.index(file) + 1 :]
        begins = after[0].base_offset if after else None
        if begins is not None and end is not None and segment.began and end > begins:
            self._reporter.say(
                "offset-past-segment",
                "error",
                str(file.path),
                f"ends with offset {end - 1}, but the next segment begins at {begins}",
                {"last_offset": end - 1, "next_segment": begins},
                REPLACE,
            )

    def finish(self) -> Verdict:
        log, verdict = self._log, self._verdict
        log.finish()
        self._judge_gaps()
        verdict.first_offset = log.first_offset
        if log.last_offset is not None:
            unstable = log.transactions.first_unstable
            verdict.next_offset = log.last_offset + 1
            verdict.last_stable_offset = verdict.next_offset if unstable is None else unstable
        verdict.committed = log.transactions.committed
        verdict.aborted = log.transactions.aborted
        verdict.open_transactions = len(log.transactions.open)
        verdict.missing = {reason: n for reason, n in self._gaps.offsets.items() if n}
        self._reporter.finish()
        verdict.findings = self._reporter.counts
        return verdict

    def _judge_gaps(self) -> None:
        across = set()
        for gap, jump in self._gaps.finish(never_compacted=self._policy == "delete"):
            across.add(jump)
            self._tell_gap(gap, jump)
        for jump in self._gaps.jumps:
            if jump not in across:
                message = (
                    f"producer {jump.producer} goes on with sequence {jump.sequence},"
                    f" {jump.expected} was next"
                )
                remedy = "compare the records of this producer with those of other replicas"
                evidence = break_evidence(jump)
                self._reporter.say("sequence-gap", "warning", jump.where, message, evidence, remedy)

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
        message = f"{which}: no batch, and nothing in the log says why"
        self._reporter.say("offset-gap", "warning", where, message, evidence, remedy)


def _known_compacted(partition: PartitionFiles, policy: Policy) -> bool:
    if policy != "auto":
        return policy == "compact"
    topic = partition.directory.name.rpartition("-")[0]
    return topic in ALWAYS_COMPACTED or partition.cleaned_to is not None
