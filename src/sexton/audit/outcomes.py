"""One replica shows a record, another hides it as aborted. Who is right?

A transaction has one marker. A replica that has missed it takes the producer's next marker for it,
which comes later. So of two replicas that have different markers for the same record

    the one whose marker is earlier is right:    X  @7 k=1 · ABORT ·       ·
                                                 Y  @7 k=1 ·   ·   @7 j=2  COMMIT     Y is wrong

and a replica that holds every offset between a record and its marker has missed nothing there: that
marker is the record's own, wherever the others have theirs. Two that have missed nothing and do not
agree have had different leaders: their histories parted, and no log tells which of them counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from sexton.audit.finding import AuditFinding, Outcome, TransactionEvidence, Verdict, judged
from sexton.audit.parting import parted
from sexton.audit.settling import is_anothers
from sexton.audit.window import LogWindow, Slot
from sexton.audit.words import named, sentence
from sexton.base.partitions import TopicPartition

ABORTED_AS_COMMITTED = "aborted-as-committed"
COMMITTED_AS_ABORTED = "committed-as-aborted"


def judge_outcome(
    partition: TopicPartition,
    record: Slot,
    showing: Mapping[int, LogWindow],
    hiding: Mapping[int, LogWindow],
) -> AuditFinding:
    """`record` is as one of the replicas has it that show it."""
    every = {**showing, **hiding}
    own = {n: marker for n, window in every.items() if (marker := own_marker(window, record))}
    if len({marker.kind for marker in own.values()}) > 1:
        return _parted(partition, record, showing, every, own)
    code, verdict = _verdict(record, showing, hiding)
    wrong = showing if code == ABORTED_AS_COMMITTED else hiding
    verbs = ("shows", "show") if wrong is showing else ("hides", "hide")
    what = "an aborted record" if wrong is showing else "a committed record"
    if verdict.right is None:
        wrong, verbs, what = every, ("", ""), "disagree about the outcome of a record"
    return judged(
        code,
        partition,
        tuple(sorted(wrong)),
        sentence(f"{named(wrong, *verbs)} {what}, at offset {record.offset}"),
        verdict,
        key=record.key,
        offsets={node: record.offset if node in showing else None for node in sorted(every)},
        values={node: record.value_digest if node in showing else None for node in sorted(every)},
        transactions=evidence(record, showing, hiding),
        began_after_ms=record.timestamp,
        windows=tuple(every[node] for node in sorted(every)),
    )


def _parted(
    partition: TopicPartition,
    record: Slot,
    showing: Mapping[int, LogWindow],
    every: Mapping[int, LogWindow],
    own: Mapping[int, Slot],
) -> AuditFinding:
    """Each has an own marker for the record, and one is another."""
    nodes = tuple(sorted(every))
    at = min(marker.offset for marker in own.values())
    return judged(
        "corrupt-batch",
        partition,
        nodes,
        sentence(f"{named(nodes)} hold different records at offset {at}"),
        Verdict(None, "unknown", parted(own)),
        key=record.key,
        offsets={node: record.offset if node in showing else None for node in nodes},
        values={node: record.value_digest if node in showing else None for node in nodes},
        transactions=evidence(record, every, {}),
        began_after_ms=record.timestamp,
        windows=tuple(every[node] for node in nodes),
    )


def evidence(
    record: Slot, showing: Mapping[int, LogWindow], others: Mapping[int, LogWindow]
) -> tuple[TransactionEvidence, ...]:
    """How each replica took the record's transaction."""
    found = []
    for node, window in sorted({**showing, **others}.items()):
        marker = window.marker_after(record.producer_id, record.offset)
        held = window.at(record.offset)
        outcome: Outcome = "unknown"
        if held is not None and held.shown is not None:
            outcome = "committed" if held.shown else "aborted"
        found.append(
            TransactionEvidence(
                node,
                record.producer_id,
                held.epoch if held is not None else None,
                record.offset if held is not None else None,
                marker.offset if marker is not None else None,
                outcome,
            )
        )
    return tuple(found)


def own_marker(window: LogWindow, record: Slot) -> Slot | None:
    """The marker that closes the record here, if no other can have been between the two."""
    marker = window.marker_after(record.producer_id, record.offset)
    if marker is None or window.lacks_any(record.offset + 1, marker.offset):
        return None
    return marker


def _verdict(
    record: Slot, showing: Mapping[int, LogWindow], hiding: Mapping[int, LogWindow]
) -> tuple[str, Verdict]:
    right_to_hide, right_to_show = tuple(sorted(hiding)), tuple(sorted(showing))
    own = next(
        (
            (node, marker)
            for node, window in sorted({**showing, **hiding}.items())
            if (marker := own_marker(window, record)) is not None
        ),
        None,
    )
    if own is not None:
        node, marker = own
        because = (
            f"replica {node} holds every offset from the record to the {marker.kind.upper()} "
            f"marker at {marker.offset}, so this marker is the record's own"
        )
        if marker.kind == "abort":
            return ABORTED_AS_COMMITTED, Verdict(right_to_hide, "certain", because)
        return COMMITTED_AS_ABORTED, Verdict(right_to_show, "certain", because)
    aborts, commits = _first(record, hiding), _first(record, showing)
    earliest = min((m for m in (aborts, commits) if m), key=lambda m: m.offset, default=None)
    if earliest is not None and is_anothers(earliest.kind, earliest.epoch - record.epoch):
        because = (
            f"even the first marker that is left, the {earliest.kind.upper()} at "
            f"{earliest.offset}, belongs to another transaction by its epoch: how the record's "
            "own ended can no longer be known"
        )
        code = ABORTED_AS_COMMITTED if earliest.kind == "commit" else COMMITTED_AS_ABORTED
        return code, Verdict(None, "unknown", because)
    if aborts is not None and commits is not None and aborts.offset != commits.offset:
        earlier, later = sorted((aborts, commits), key=lambda slot: slot.offset)
        because = (
            f"a transaction has one marker, and a replica that missed it takes the producer's next "
            f"one: the {earlier.kind.upper()} at {earlier.offset} comes before the "
            f"{later.kind.upper()} at {later.offset}"
        )
        if earlier is aborts:
            return ABORTED_AS_COMMITTED, Verdict(right_to_hide, "certain", because)
        return COMMITTED_AS_ABORTED, Verdict(right_to_show, "certain", because)
    if (
        aborts is not None
        and commits is None
        and all(window.end > aborts.offset for window in showing.values())
        and record.transactional
    ):
        because = (
            f"its ABORT marker is at {aborts.offset}, and {named(showing, 'holds', 'hold')} none "
            "up to there: a later one was taken for it"
        )
        return ABORTED_AS_COMMITTED, Verdict(right_to_hide, "certain", because)
    because = (
        "a replica that shows the record has settled it by a marker that is gone; the one that "
        "hides it lacks offsets where that marker was, and took a later ABORT for it"
    )
    return COMMITTED_AS_ABORTED, Verdict(right_to_show, "likely", because)


def _first(record: Slot, windows: Mapping[int, LogWindow]) -> Slot | None:
    """The earliest marker that any of these has for the record."""
    markers = [
        marker
        for window in windows.values()
        if (marker := window.marker_after(record.producer_id, record.offset)) is not None
    ]
    return min(markers, key=lambda slot: slot.offset, default=None)
