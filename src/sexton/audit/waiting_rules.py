"""Transactions that do not end: one that only one replica waits for, and one that nobody will end.

A replica B is stuck if it waits for a transaction that has ended on A, although B's log is past
where A's was when A knew it:

    first look   A: high watermark 40, stable past the transaction's start
    second look  B: high watermark 40 or more, and still not stable past it

A marker counts once it is below the high watermark. So it was below 40 on A; B has come past it and
does not know it, and never will. Two looks are needed: between them B has had its chance.

If all replicas wait, then the coordinator decides: if it knows nothing of the transaction, no
marker will ever come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sexton.audit.facts import CoordinatorState, OpenTransaction, ReplicaFacts
from sexton.audit.finding import AuditFinding, Outcome, TransactionEvidence, Verdict, judged
from sexton.audit.remedies import remedy
from sexton.audit.window import LogWindow
from sexton.audit.words import named, sentence
from sexton.base.kafka_options import TRANSACTION_MAX_TIMEOUT_MS

_ENDED = ("CompleteCommit", "CompleteAbort", "Empty", "Dead")
PATIENCE = 2  # times its timeout: a transaction that old was forgotten by its coordinator


def judge_open(
    first: Sequence[ReplicaFacts],
    second: Sequence[ReplicaFacts],
    coordinator: Mapping[int, CoordinatorState | None],
    *,
    now_ms: int,
    longest_ms: int = TRANSACTION_MAX_TIMEOUT_MS,
    windows: Sequence[LogWindow] = (),
) -> list[AuditFinding]:
    """`coordinator` by producer id: None if it knows nothing of it, absent if it was not asked.

    `longest_ms`: how long the cluster lets any transaction take.
    """
    before, after = ({each.node: each for each in looks} for looks in (first, second))
    findings: list[AuditFinding] = []
    waiting: dict[tuple[int, int], list[int]] = {}
    for node, facts in sorted(after.items()):
        for each in facts.open:
            if node in before and _is_open(before[node], each):
                waiting.setdefault((each.producer_id, each.start_offset), []).append(node)
    for (producer, start), nodes in sorted(waiting.items()):
        transaction = next(
            each
            for each in after[nodes[0]].open
            if (each.producer_id, each.start_offset) == (producer, start)
        )
        passed = [
            facts for node, facts in sorted(before.items())
            if node not in nodes and facts.last_stable > start and not _is_open(facts, transaction)
        ]  # fmt: skip
        stuck = [node for node in nodes if _is_stuck(after[node], start, passed)]
        if stuck:
            findings.append(_stuck(transaction, stuck, passed, after, windows))
        elif len(nodes) == len(after) and _is_forgotten(
            transaction, coordinator, now_ms, longest_ms
        ):
            findings.append(_hanging(transaction, after, coordinator.get(producer)))
    return findings


def _is_open(facts: ReplicaFacts, transaction: OpenTransaction) -> bool:
    return any(
        each.producer_id == transaction.producer_id
        and each.start_offset == transaction.start_offset
        for each in facts.open
    )


def _is_stuck(facts: ReplicaFacts, start: int, passed: Sequence[ReplicaFacts]) -> bool:
    """A marker counts once it is below the high watermark; this replica's is past it, too."""
    return facts.last_stable <= start and any(
        facts.high_watermark >= each.high_watermark for each in passed
    )


def _stuck(
    transaction: OpenTransaction,
    stuck: Sequence[int],
    passed: Sequence[ReplicaFacts],
    after: Mapping[int, ReplicaFacts],
    windows: Sequence[LogWindow],
) -> AuditFinding:
    ended, marker, how = _how_it_ended(transaction, passed, windows)
    right = tuple(facts.node for facts in passed)
    producer, start = transaction.producer_id, transaction.start_offset
    because = (
        f"the last stable offset is past {start} on {named(right)}, and the log of {named(stuck)} "
        f"is past where theirs was: it has missed the marker; {how}"
    )
    advice = remedy("stuck-partition")
    if ended == "aborted":
        advice = "It was aborted, so aborting it on the leader as well would do no harm. " + advice
    return judged(
        "stuck-partition",
        after[stuck[0]].scope.partition,
        tuple(stuck),
        sentence(
            f"{named(stuck, 'waits', 'wait')} at offset {start} for the end of a transaction of "
            f"producer {producer} that has ended elsewhere"
        ),
        Verdict(right, "certain", because),
        offsets={node: facts.last_stable for node, facts in sorted(after.items())},
        transactions=tuple(
            TransactionEvidence(node, producer, transaction.epoch, start, None, "open")
            if node in stuck
            else TransactionEvidence(node, producer, transaction.epoch, None, marker, ended)
            for node in sorted({*stuck, *right})
        ),
        began_after_ms=transaction.last_timestamp,
        advice=advice,
        windows=windows,
    )


def _how_it_ended(
    transaction: OpenTransaction, passed: Sequence[ReplicaFacts], windows: Sequence[LogWindow]
) -> tuple[Outcome, int | None, str]:
    """By the log of a replica that knows: (outcome, marker, how we know)."""
    producer, start = transaction.producer_id, transaction.start_offset
    for facts in passed:
        for span in facts.aborted:
            if (span.producer_id, span.first_offset) == (producer, start):
                return "aborted", span.marker_offset, f"replica {facts.node} lists it as aborted"
    known = {facts.node for facts in passed}
    for window in windows:
        held = window.at(start) if window.node in known else None
        if held is not None and held.producer_id == producer and held.shown is not None:
            marker = window.marker_after(producer, start)
            at = marker.offset if marker is not None else None
            if held.shown:
                return "committed", at, f"replica {window.node} shows its data: it was committed"
            return "aborted", at, f"replica {window.node} hides its data: it was aborted"
    how = "how it ended cannot be known: neither its data nor its marker is left"
    return "unknown", None, how


def _is_forgotten(
    transaction: OpenTransaction,
    coordinator: Mapping[int, CoordinatorState | None],
    now_ms: int,
    longest_ms: int,
) -> bool:
    if transaction.producer_id not in coordinator:
        return False
    state = coordinator[transaction.producer_id]
    if state is None:
        # It knows nothing of it, or we may not DESCRIBE its transactional id: only age can tell.
        return now_ms - transaction.last_timestamp > longest_ms
    # Records have the time that their producer says, which may be years ago; so the coordinator's
    # clock decides.
    begun_ms = max(state.started_ms, transaction.last_timestamp)
    return _is_unknown(state) or now_ms - begun_ms > PATIENCE * max(state.timeout_ms, 60_000)


def _is_unknown(state: CoordinatorState | None) -> bool:
    """Will its coordinator send no marker? While it prepares to, partitions leave its list."""
    if state is None or state.state in _ENDED:
        return True
    return not state.has_partition and not state.state.startswith("Prepare")


def _hanging(
    transaction: OpenTransaction,
    after: Mapping[int, ReplicaFacts],
    state: CoordinatorState | None,
) -> AuditFinding:
    producer, start = transaction.producer_id, transaction.start_offset
    said = "knows nothing of it, or does not tell us" if state is None else f"says {state.state}"
    nodes = tuple(sorted(after))
    return judged(
        "hanging-transaction",
        after[nodes[0]].scope.partition,
        nodes,
        f"A transaction of producer {producer} is open from offset {start} on, and nobody will "
        "end it.",
        Verdict(
            nodes,
            "certain" if state is not None and _is_unknown(state) else "likely",
            f"all replicas agree that it is open; its coordinator {said}",
        ),
        offsets={node: facts.last_stable for node, facts in sorted(after.items())},
        transactions=tuple(
            TransactionEvidence(node, producer, transaction.epoch, start, None, "open")
            for node in nodes
        ),
        began_after_ms=transaction.last_timestamp,
    )
