"""Transactions that do not end: one that only one replica waits for, and one that nobody will end.

A replica B is stuck if it waits for a transaction that has ended on A, although B's log is past
where A's was when A knew it:

    first look   A: high watermark 40, stable past the transaction's start
    second look  B: high watermark 40 or more, and still not stable past it

A marker counts once it is below the high watermark. So it was below 40 on A; B has come past it and
does not know it, and never will. Two looks are needed: between them B has had its chance.

While an older transaction is open everywhere, nobody is stable past the start of this one, and no
last stable offset says that it has ended. Then A's log is read for the marker itself: one that is
below A's high watermark, and below B's by the second look, is one that B must have taken.

If all replicas wait, then the coordinator decides: if it knows nothing of the transaction, no
marker will ever come. What records say of their age decides nothing. They carry the time that their
producer gives them: one that replays old events looks as if it had begun years ago.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sexton.audit.facts import CoordinatorState, OpenTransaction, ReplicaFacts
from sexton.audit.finding import AuditFinding, Outcome, TransactionEvidence, Verdict, judged
from sexton.audit.remedies import remedy, runbook
from sexton.audit.window import LogWindow, Slot
from sexton.audit.words import named, sentence
from sexton.base.kafka_options import TRANSACTION_MAX_TIMEOUT_MS
from sexton.base.lazy_dataclass import dataclass

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
    searched: Sequence[LogWindow] = (),
    replicas: int = 0,
) -> list[AuditFinding]:
    """`coordinator` by producer id: None if there is none that knows it, absent if one may.

    `longest_ms`: how long the cluster lets any transaction take. `searched`: looks for the markers
    of what is `behind_another`. `replicas`: how many the partition has.
    """
    before, after = _by_node(first), _by_node(second)
    findings: list[AuditFinding] = []
    for transaction, nodes in _waiting(before, after):
        passed = [
            facts for node, facts in before.items()
            if node not in nodes and facts.last_stable > transaction.start_offset
            and not _is_open(facts, transaction)
        ]  # fmt: skip
        markers = _markers(transaction, nodes, [*windows, *searched])
        stuck = [node for node in nodes if _is_stuck(after[node], transaction, passed, markers)]
        if stuck:
            looks = windows if passed else searched or windows
            findings.append(_stuck(transaction, stuck, passed, markers, after, looks))
        elif len(nodes) == len(after) and _is_forgotten(
            transaction, coordinator, now_ms, longest_ms
        ):
            state = coordinator[transaction.producer_id]
            findings.append(_hanging(transaction, after, state, replicas))
    return findings


@dataclass(frozen=True, slots=True)
class Behind:
    """A transaction that has ended on some replicas, as it seems, behind an older open one."""

    transaction: OpenTransaction
    ended_on: tuple[int, ...]
    end: int  # a marker that somebody has missed is below it

    def is_settled_by(self, window: LogWindow) -> bool:
        """Is its marker in this look, or was all looked at?"""
        transaction = self.transaction
        marker = window.marker_after(transaction.producer_id, transaction.start_offset)
        return marker is not None or window.end >= min(self.end, window.high_watermark)


def behind_another(first: Sequence[ReplicaFacts], second: Sequence[ReplicaFacts]) -> list[Behind]:
    """Where only its marker can tell that a transaction has ended: it is to be looked for."""
    before, after = _by_node(first), _by_node(second)
    found = []
    for transaction, nodes in _waiting(before, after):
        end = max(after[node].high_watermark for node in nodes)
        ended_on = tuple(
            node for node, facts in before.items()
            if not _is_open(facts, transaction)
            and facts.last_stable <= transaction.start_offset < facts.high_watermark <= end
        )  # fmt: skip
        if ended_on:
            found.append(Behind(transaction, ended_on, end))
    return found


def may_hang(
    first: Sequence[ReplicaFacts],
    second: Sequence[ReplicaFacts],
    producers: Collection[int],
    *,
    now_ms: int,
    longest_ms: int = TRANSACTION_MAX_TIMEOUT_MS,
) -> list[OpenTransaction]:
    """All replicas wait for these, for long by what their records say, and nobody can say more.

    `producers`: of whom a coordinator may know that does not tell us.
    """
    before, after = _by_node(first), _by_node(second)
    return [
        transaction
        for transaction, nodes in _waiting(before, after)
        if len(nodes) == len(after)
        and transaction.producer_id in producers
        and _seems_old(transaction, now_ms, longest_ms)
    ]


def _by_node(looks: Sequence[ReplicaFacts]) -> dict[int, ReplicaFacts]:
    return {each.node: each for each in sorted(looks, key=lambda facts: facts.node)}


def _waiting(
    before: Mapping[int, ReplicaFacts], after: Mapping[int, ReplicaFacts]
) -> list[tuple[OpenTransaction, list[int]]]:
    """What is open at both looks, and where."""
    waiting: dict[tuple[int, int], tuple[OpenTransaction, list[int]]] = {}
    for node, facts in after.items():
        for each in facts.open:
            if node in before and _is_open(before[node], each):
                same = each.producer_id, each.start_offset
                waiting.setdefault(same, (each, []))[1].append(node)
    return [found for _same, found in sorted(waiting.items())]


def _is_open(facts: ReplicaFacts, transaction: OpenTransaction) -> bool:
    return any(
        each.producer_id == transaction.producer_id
        and each.start_offset == transaction.start_offset
        for each in facts.open
    )


def _is_stuck(
    facts: ReplicaFacts,
    transaction: OpenTransaction,
    passed: Sequence[ReplicaFacts],
    markers: Mapping[int, Slot],
) -> bool:
    """A marker counts once it is below the high watermark; this replica's is past it, too."""
    if any(marker.offset < facts.high_watermark for marker in markers.values()):
        return True
    return facts.last_stable <= transaction.start_offset and _is_past(facts, passed)


def _is_past(facts: ReplicaFacts, passed: Sequence[ReplicaFacts]) -> bool:
    return any(facts.high_watermark >= each.high_watermark for each in passed)


def _markers(
    transaction: OpenTransaction, nodes: Collection[int], windows: Sequence[LogWindow]
) -> dict[int, Slot]:
    """By node, of those that do not wait: a marker below their high watermark that ends it."""
    found: dict[int, Slot] = {}
    for window in windows:
        marker = window.marker_after(transaction.producer_id, transaction.start_offset)
        if window.node in nodes or marker is None:
            continue
        if marker.offset < window.high_watermark:
            found.setdefault(window.node, marker)
    return found


def _stuck(
    transaction: OpenTransaction,
    stuck: Sequence[int],
    passed: Sequence[ReplicaFacts],
    markers: Mapping[int, Slot],
    after: Mapping[int, ReplicaFacts],
    windows: Sequence[LogWindow],
) -> AuditFinding:
    right = tuple(sorted({*markers, *(facts.node for facts in passed)}))
    ended, marker, how = _how_it_ended(transaction, right, passed, windows)
    producer, start = transaction.producer_id, transaction.start_offset
    if any(_is_past(after[node], passed) for node in stuck):
        knows = f"the last stable offset is past {start} on {named(right)}"
        because = f"{knows}, and the log of {named(stuck)} is past where theirs was"
    else:
        at = min(each.offset for each in markers.values())
        knows = f"{named(right, 'has', 'have')} a marker of its producer at offset {at}"
        because = f"{knows}, and the high watermark of {named(stuck)} is past that"
    because += f": it has missed the marker; {how}"
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
    transaction: OpenTransaction,
    right: Collection[int],
    passed: Sequence[ReplicaFacts],
    windows: Sequence[LogWindow],
) -> tuple[Outcome, int | None, str]:
    """By the log of a replica that knows: (outcome, marker, how we know)."""
    producer, start = transaction.producer_id, transaction.start_offset
    for facts in passed:
        for span in facts.aborted:
            if (span.producer_id, span.first_offset) == (producer, start):
                return "aborted", span.marker_offset, f"replica {facts.node} lists it as aborted"
    known = [window for window in windows if window.node in right]
    for window in known:
        held, marker = window.at(start), window.marker_after(producer, start)
        if held is not None and held.producer_id == producer and held.shown is not None:
            at = marker.offset if marker is not None else None
            if held.shown:
                return "committed", at, f"replica {window.node} shows its data: it was committed"
            return "aborted", at, f"replica {window.node} hides its data: it was aborted"
    for window in known:
        marker = window.marker_after(producer, start)
        if marker is not None and not window.lacks_any(start + 1, marker.offset):
            ended: Outcome = "committed" if marker.kind == "commit" else "aborted"
            how = f"replica {window.node} holds its {marker.kind.upper()} marker: it was {ended}"
            return ended, marker.offset, how
    how = "neither its data nor its marker is left"
    if any(window.marker_after(producer, start) for window in known):
        how = "offsets are missing before that marker, where its own may have been"
    return "unknown", None, f"how it ended cannot be known: {how}"


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
        # It was asked who knows the producer after it had written, and nobody does. One that began
        # just now is left alone all the same, as `sexton txn` does.
        return _seems_old(transaction, now_ms, longest_ms)
    return _is_unknown(state) or _is_overdue(state, now_ms)


def _seems_old(transaction: OpenTransaction, now_ms: int, longest_ms: int) -> bool:
    """Or dated in the future, by more than clocks differ, so that it would never get old."""
    return abs(now_ms - transaction.last_timestamp) > longest_ms


def _is_overdue(state: CoordinatorState, now_ms: int) -> bool:
    """By the coordinator's clock, which had to end it in time."""
    if state.started_ms < 0:
        return False
    return now_ms - state.started_ms > PATIENCE * max(state.timeout_ms, 60_000)


def _is_unknown(state: CoordinatorState | None) -> bool:
    """Will its coordinator send no marker? While it prepares to, partitions leave its list."""
    if state is None or state.state in _ENDED:
        return True
    return not state.has_partition and not state.state.startswith("Prepare")


def _hanging(
    transaction: OpenTransaction,
    after: Mapping[int, ReplicaFacts],
    state: CoordinatorState | None,
    replicas: int,
) -> AuditFinding:
    producer, start = transaction.producer_id, transaction.start_offset
    said, certain = f"no coordinator knows producer {producer}", False
    until, advice = "nobody will end it", None
    if state is not None:
        said, certain = f"its coordinator says {state.state}", _is_unknown(state)
    if state is not None and not certain:
        seconds = state.timeout_ms / 1000
        said += f" and allowed it {seconds:g} s, long past by our clock"
        until = "its coordinator should have ended it"
        advice = (
            "Its coordinator should have ended it: restart that broker, and do not abort it in one "
            f"partition while it may still commit in others. See {runbook('hanging-transaction')}."
        )
    nodes = tuple(sorted(after))
    agreed = "all replicas agree that it is open"
    if len(nodes) < replicas:  # one that is silent may know the end: then these are stuck
        agreed, certain = f"{len(nodes)} of {replicas} replicas were asked and have it open", False
    return judged(
        "hanging-transaction",
        after[nodes[0]].scope.partition,
        nodes,
        f"A transaction of producer {producer} is open from offset {start} on, and {until}.",
        Verdict(
            nodes,
            "certain" if certain else "likely",
            f"{agreed}; {said}",
        ),
        offsets={node: facts.last_stable for node, facts in sorted(after.items())},
        transactions=tuple(
            TransactionEvidence(node, producer, transaction.epoch, start, None, "open")
            for node in nodes
        ),
        began_after_ms=transaction.last_timestamp,
        advice=advice,
    )
