"""Transactions that replicas take differently, and markers that cannot belong to their data.

`judge_span`: node X takes [first, marker) of a producer for aborted.

* Another replica shows data of the producer in there: the two have different markers for it, and
  `outcomes` says who is right.
* Another replica has the same ABORT marker, but there the transaction began later:

      X  @7 k=1   ·   ·   @7 j=2  ABORT     aborted from 0 on
      Y    ·      ·   ·   @7 j=2  ABORT     aborted from 3 on

  A transaction that is open keeps everybody from cleaning above its start, so if X holds data on
  both sides of a gap, then the first of it was settled by a marker in that gap. Was that a COMMIT,
  X hides committed data. (Was it an ABORT, X hides the right thing for the wrong reason. So this is
  likely, and never certain.) Without a gap X has missed nothing, and Y has copied its log from one
  that had been cleaned.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from sexton.audit.compare import SpanSuspicion
from sexton.audit.facts import MisfitMarker, ReplicaFacts
from sexton.audit.finding import AuditFinding, Outcome, TransactionEvidence, Verdict, judged
from sexton.audit.outcomes import COMMITTED_AS_ABORTED, judge_outcome
from sexton.audit.window import LogWindow, Slot

# ── data that one hides and another shows ──


def judge_span(suspicion: SpanSuspicion, windows: Mapping[int, LogWindow]) -> AuditFinding | None:
    """`windows` as `compare.look_at` asks for them, of `node` and `others`."""
    span, hider = suspicion.span, windows.get(suspicion.node)
    if hider is None or span.marker_offset is None:
        return None
    still_there = hider.at(span.marker_offset)
    if still_there is None or still_there.kind != "abort":
        return None
    showing: dict[int, LogWindow] = {}
    for node in suspicion.others:
        window = windows.get(node)
        if window is not None and _shown_data(window, suspicion, hider):
            showing[node] = window
    if not showing:
        return _began_later(suspicion, hider, windows)
    record = min(
        (slot for each in showing.values() for slot in _shown_data(each, suspicion, hider)),
        key=lambda slot: (hider.at(slot.offset) is None, slot.offset),
    )
    holders = {n: w for n, w in showing.items() if w.at(record.offset) is not None}
    found = judge_outcome(suspicion.scope.partition, record, holders, {suspicion.node: hider})
    if found.code == COMMITTED_AS_ABORTED and hider.at(record.offset) is None:
        return None  # it hides nothing: it copied an emptied batch whose COMMIT was gone already
    return found


def _shown_data(window: LogWindow, suspicion: SpanSuspicion, hider: LogWindow) -> list[Slot]:
    """Records of the transaction that this replica shows and the other does not."""
    span = suspicion.span
    assert span.marker_offset is not None
    return [
        slot
        for slot in window.slots
        if slot.producer_id == span.producer_id
        and span.first_offset <= slot.offset < span.marker_offset
        and slot.shown
        and not ((held := hider.at(slot.offset)) is not None and held.shown)
    ]


def _began_later(
    suspicion: SpanSuspicion, hider: LogWindow, windows: Mapping[int, LogWindow]
) -> AuditFinding | None:
    """Data before a gap and after it, hidden by one marker that elsewhere hides only the latter."""
    span = suspicion.span
    hidden = [
        slot
        for slot in hider.slots
        if slot.producer_id == span.producer_id and slot.shown is False and not slot.control
        and span.first_offset <= slot.offset < (span.marker_offset or 0)
    ]  # fmt: skip
    torn = [
        (before, after)
        for before, after in pairwise(hidden)
        if hider.lacks_any(before.offset + 1, after.offset)
        and any(before.offset < start <= after.offset for start in suspicion.starts.values())
    ]
    if not torn:
        return None
    record, after = hidden[0], torn[-1][1]
    two_epochs = record.epoch != after.epoch
    others = tuple(node for node in sorted(suspicion.starts) if node in windows)
    because = (
        f"the producer's records from offset {after.offset} on belong to another transaction: "
        "records in between are gone, which an open transaction would have prevented; whether the "
        "first was committed can no longer be known; if it was aborted, nothing is lost"
    )
    return judged(
        COMMITTED_AS_ABORTED,
        suspicion.scope.partition,
        (suspicion.node,),
        f"Replica {suspicion.node} hides data from offset {record.offset} on under the ABORT "
        f"marker of a later transaction, at {span.marker_offset}.",
        Verdict(others, "likely", because),
        offsets={suspicion.node: record.offset, **dict.fromkeys(others)},
        values={suspicion.node: record.value_digest, **dict.fromkeys(others)},
        transactions=(
            TransactionEvidence(
                suspicion.node, span.producer_id, record.epoch, record.offset,
                span.marker_offset, "aborted",
            ),
            *(
                TransactionEvidence(
                    node, span.producer_id, after.epoch if two_epochs else None, None,
                    span.marker_offset, "unknown",
                )
                for node in others
            ),
        ),
        began_after_ms=record.timestamp,
        windows=tuple(windows[node] for node in sorted({suspicion.node, *others})),
    )  # fmt: skip


# ── markers that cannot be their own ──


def judge_misfits(facts: ReplicaFacts) -> list[AuditFinding]:
    """One replica alone is enough to see these."""
    return [_misfit(facts, each) for each in facts.misfits]


def _misfit(facts: ReplicaFacts, misfit: MisfitMarker) -> AuditFinding:
    kind = "COMMIT" if misfit.commits else "ABORT"
    because = (
        "one replica alone does not show how the transaction really ended; another that holds its "
        "own marker, or has removed its data, would"
    )
    outcome: Outcome = "committed" if misfit.commits else "aborted"
    return judged(
        "marker-mismatch",
        facts.scope.partition,
        (facts.node,),
        f"On replica {facts.node} data of producer {misfit.producer_id} from offset "
        f"{misfit.first_data} on, of epoch {misfit.data_epoch}, is closed by the {kind} marker of "
        f"another transaction, at {misfit.marker_offset} with epoch {misfit.marker_epoch}.",
        Verdict(None, "unknown", because),
        offsets={facts.node: misfit.first_data},
        transactions=(
            TransactionEvidence(
                facts.node, misfit.producer_id, misfit.data_epoch, misfit.first_data,
                misfit.marker_offset, outcome,
            ),
        ),
    )  # fmt: skip
