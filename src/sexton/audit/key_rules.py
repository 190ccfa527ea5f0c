"""A key's last record is not the same everywhere: what happened, and who is right?

Take the latest record R of the key that any replica shows, at offset r. Some *show* it, the others
*lack* it though their logs are past r. Three things can have happened:

    deleted   a tombstone after r removed R; those that show R have never seen it
    aborted   R's transaction was aborted; those that show R took another marker for its own
    lost      those that lack R have lost it

In the first two the ones that lack R are right, in the third the others. The logs tell them apart:

* a batch that still covers r without R: R was there and was removed, so it is not lost;
* an older record of the key on a replica that lacks R: cleaning would have removed that first, so R
  was not deleted;
* no offset after r that both kinds lack: nowhere a tombstone can have been, so R was not deleted;
* a replica that shows R and holds every offset up to R's marker: that is its own, so R was not
  aborted; if R is in no transaction, neither;
* epochs that do not fit R's marker, or an ABORT before it on another replica: R's own is missing.

Whoever holds something else at r neither shows R nor lacks it: there the histories have parted, and
no log tells which of them counts.

What is left open is decided by what is more common, and said to be likely only. All windows are a
third look: if the difference is not in them any more, there is no finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sexton.audit.compare import KeySuspicion
from sexton.audit.facts import KeyEntry
from sexton.audit.finding import AuditFinding, Verdict, judged
from sexton.audit.outcomes import (
    COMMITTED_AS_ABORTED,
    evidence,
    judge_outcome,
    own_marker,
)
from sexton.audit.parting import parted
from sexton.audit.window import LogWindow, Slot
from sexton.audit.words import named, sentence


@dataclass(frozen=True, slots=True)
class _Case:
    """The latest record of a key, and who has it."""

    suspicion: KeySuspicion
    record: Slot
    showing: dict[int, LogWindow]
    lacking: dict[int, LogWindow]
    parted: dict[int, LogWindow]  # they hold another record at its offset

    @property
    def older(self) -> bool:
        """Has a replica that lacks the record an older one of the same key?"""
        return any(self.suspicion.entries[node] is not None for node in self.lacking)


def judge_key(
    suspicion: KeySuspicion, windows: Mapping[int, LogWindow], *, replicas: int
) -> list[AuditFinding]:
    """`windows` as `compare.look_at` asks for them; `replicas`: how many the partition has.

    Mostly one finding. Where one hides the record and another has lost it there are two: whoever is
    not named would count as one to copy from.
    """
    case = _case(suspicion, windows)
    if case is None:
        return []
    digests = {_at(window, case.record).value_digest for window in case.showing.values()}
    if case.parted:
        return [_different_records(case)]
    if len(digests) > 1:
        return [_different_values(case)]
    at = case.record.offset
    hiding = {node: window for node, window in case.lacking.items() if window.at(at) is not None}
    without = {node: window for node, window in case.lacking.items() if node not in hiding}
    findings = []
    if hiding:
        partition = suspicion.scope.partition
        outcome = judge_outcome(partition, case.record, case.showing, hiding)
        findings.append(outcome)
        if outcome.code != COMMITTED_AS_ABORTED or outcome.verdict.certainty != "certain":
            return findings  # it was, or may have been, aborted: to have nothing of it is right
    if without:
        findings.append(_removed(replace(case, lacking=without), replicas))
    return findings


def _removed(case: _Case, replicas: int) -> AuditFinding:
    """Those that lack the record have nothing at its offset."""
    code, certain, lackers_right, because = _decide(case)
    right, wrong = case.lacking, case.showing
    if not lackers_right:
        right, wrong = wrong, right
    compared = len(case.suspicion.entries)
    if compared < replicas:
        because += f"; {compared} of {replicas} replicas were compared"
    verdict = Verdict(tuple(sorted(right)), "certain" if certain else "likely", because)
    return _finding(case, code, tuple(sorted(wrong)), verdict)


def _case(suspicion: KeySuspicion, windows: Mapping[int, LogWindow]) -> _Case | None:
    entries = {node: entry for node, entry in suspicion.entries.items() if node in windows}
    offset = max((entry.offset for entry in entries.values() if entry is not None), default=-1)
    looked = {node: windows[node] for node in sorted(entries)}
    if offset < 0 or any(
        _written_since(window, suspicion.key, offset) for window in looked.values()
    ):
        return None
    showing, lacking, parted = {}, {}, {}
    for node, window in looked.items():
        held = window.at(offset)
        if held is not None and held.kind != "damaged" and held.key != suspicion.key:
            parted[node] = window
        elif held is not None and held.shown:
            showing[node] = window
        elif _must_have(window, offset, suspicion.scope.deletes):
            lacking[node] = window
    if not showing:
        return None
    if not all(window.log_start > offset for window in lacking.values()):
        # Whose log begins later says nothing of why the others lack it.
        lacking = {n: w for n, w in lacking.items() if w.log_start <= offset}
    record = _at(next(iter(showing.values())), offset)
    if record.kind == "tombstone":  # whoever shows nothing agrees
        lacking = {n: w for n, w in lacking.items() if _is_value(suspicion.entries[n], w)}
    return _Case(suspicion, record, showing, lacking, parted)


def _at(window: LogWindow, record: Slot | int) -> Slot:
    held = window.at(record if isinstance(record, int) else record.offset)
    assert held is not None
    return held


def _written_since(window: LogWindow, key: bytes, offset: int) -> bool:
    return any(slot.key == key and slot.offset > offset and slot.shown for slot in window.slots)


def _must_have(window: LogWindow, offset: int, deletes: bool) -> bool:
    """Is its log past the offset, not deleted up to there nor damaged there, and was it read?

    Where nothing is ever deleted for its age, a log has no reason to begin later than the others.
    """
    damaged = any(
        slot.kind == "damaged" and slot.offset <= offset <= slot.last_offset
        for slot in window.slots
    )
    was_read = offset < min(window.last_stable, window.end)
    return was_read and not damaged and (window.log_start <= offset or not deletes)


def _is_value(entry: KeyEntry | None, window: LogWindow) -> bool:
    """Does the replica show an older value, still? One far from the window is believed."""
    if entry is None or entry.value_digest is None:
        return False
    if not window.first <= entry.offset < window.end:
        return True
    held = window.at(entry.offset)
    return held is not None and bool(held.shown)


# ── deleted, aborted or lost? ──


def _decide(case: _Case) -> tuple[str, bool, bool, str]:
    """(code, is it certain, are those right that lack the record, because)"""
    record, lacking = case.record, case.lacking
    aborted = _aborted(case)
    if aborted == "certain":
        because = (
            f"the marker that {named(case.showing)} took for its own belongs to another "
            "transaction, as the epochs or an earlier ABORT on another replica show"
        )
        return "aborted-as-committed", True, True, because
    if record.kind == "tombstone":
        lack = named(lacking, "lacks", "lack")
        because = f"the key was deleted at offset {record.offset}, which {lack}"
        return "tombstone-divergence", aborted == "no", False, because
    was_there = [node for node, window in lacking.items() if window.covers(record.offset)]
    if was_there:
        because = (
            f"on replica {was_there[0]} a batch still covers offset {record.offset} without the "
            "record: it was there, and was removed for a reason that the other has not seen"
        )
        code = "aborted-as-committed" if aborted == "maybe" else "tombstone-divergence"
        return code, True, True, because
    if aborted == "maybe":
        because = (
            "an offset is missing between the record and the marker that closes it, where its own "
            "marker may have been; or the record was deleted: the logs cannot tell, and the remedy "
            "is the same"
        )
        return "aborted-as-committed", False, True, because
    return _deleted_or_lost(case)


def _deleted_or_lost(case: _Case) -> tuple[str, bool, bool, str]:
    """The record was committed."""
    record, lacking = case.record, case.lacking
    begins = {window.log_start for window in lacking.values()}
    if min(begins) > record.offset:
        because = (
            f"the log of {named(lacking)} begins at offset {min(begins)}, that of the leader "
            "earlier: nothing deletes the start of a log that is only compacted, unless its "
            "cleanup.policy used to be different"
        )
        return "missing-record", False, False, because
    if case.older:
        because = (
            "an older record of the key is still there; whatever rightly removes a record removes "
            "older ones first"
        )
        return "missing-record", True, False, because
    if any(not _room_for_a_tombstone(case, window) for window in lacking.values()):
        because = "no offset after it is missing, so no tombstone can have been there"
        return "missing-record", True, False, because
    repeats = [case.suspicion.first_repeats.get(node) for node in lacking]
    if all(repeat is not None and repeat <= record.offset for repeat in repeats):
        because = (
            "a key occurs twice below this offset, so this log was not cleaned up to here; "
            "unless it was copied from one that was"
        )
        return "missing-record", False, False, because
    if len(lacking) == 1 and len(case.showing) > 1:
        because = f"{len(case.showing)} replicas have it and one does not"
        return "missing-record", False, False, because
    because = (
        f"{named(lacking, 'has', 'have')} no record of the key, as after a deletion whose "
        f"tombstone has expired; {named(case.showing, 'lacks', 'lack')} offsets where that "
        "tombstone may have been"
    )
    return "tombstone-divergence", False, True, because


def _aborted(case: _Case) -> str:
    """Can the record have been aborted? `no`, `maybe` or `certain`."""
    record = case.record
    answers = [_aborted_on(case, window) for window in case.showing.values()]
    if not record.transactional or "no" in answers:
        return "no"
    return "certain" if "certain" in answers else "maybe"


def _aborted_on(case: _Case, window: LogWindow) -> str:
    """What one replica that shows the record lets us think."""
    record = _at(window, case.record)
    producer, offset = record.producer_id, record.offset
    if not record.transactional:
        return "no"
    own = own_marker(window, record)
    if own is not None:
        return "no" if own.kind == "commit" else "certain"
    marker = window.marker_after(producer, offset)
    until = marker.offset if marker is not None else window.end
    for other in case.lacking.values():
        first = other.marker_after(producer, offset)
        if first is not None and first.offset < until:
            return "certain" if first.kind == "abort" else "no"
    if marker is None:
        return "maybe"
    epochs = {
        slot.epoch
        for slot in window.slots
        if slot.producer_id == producer and offset < slot.offset < until and not slot.control
    }
    fits = marker.epoch - record.epoch in (0, 1) and epochs <= {record.epoch}
    return "maybe" if fits else "certain"


def _room_for_a_tombstone(case: _Case, window: LogWindow) -> bool:
    """Is there an offset after the record that this replica lacks, and one that shows it too?"""
    after = case.record.offset + 1
    if window.end < window.last_stable:
        return True  # not looked at to its end
    mine = [(max(low, after), high) for low, high in window.gaps if high > after]
    return any(
        shower.lacks_any(low, high) for shower in case.showing.values() for low, high in mine
    )


# ── in words ──

_MESSAGES = {
    "tombstone-divergence": ("shows", "show", "a deleted key"),
    "aborted-as-committed": ("shows", "show", "an aborted record"),
    "missing-record": ("has", "have", "lost a committed record"),
}


def _finding(case: _Case, code: str, wrong: tuple[int, ...], verdict: Verdict) -> AuditFinding:
    record, entries = case.record, case.suspicion.entries
    at = record.offset
    if record.kind == "tombstone" and code == "tombstone-divergence":
        at = max(entry.offset for node in wrong if (entry := entries[node]) is not None)
    one, several, what = _MESSAGES[code]
    said = sentence(f"{named(wrong, one, several)} {what}, at offset {at}")
    return _about_key(case, code, wrong, said, verdict)


def _about_key(
    case: _Case, code: str, wrong: tuple[int, ...], message: str, verdict: Verdict
) -> AuditFinding:
    record, entries = case.record, case.suspicion.entries
    return judged(
        code,
        case.suspicion.scope.partition,
        wrong,
        message,
        verdict,
        key=case.suspicion.key,
        offsets={node: e.offset if e is not None else None for node, e in entries.items()},
        values={node: e.value_digest if e is not None else None for node, e in entries.items()},
        transactions=(evidence(record, case.showing, case.lacking) if record.transactional else ()),
        began_after_ms=record.timestamp,
        windows=[
            window
            for _node, window in sorted({**case.showing, **case.lacking, **case.parted}.items())
        ],
    )


def _different_values(case: _Case) -> AuditFinding:
    because = parted({node: _at(window, case.record) for node, window in case.showing.items()})
    wrong = tuple(sorted(case.showing))
    said = sentence(f"{named(wrong)} hold different values at offset {case.record.offset}")
    return _about_key(case, "corrupt-batch", wrong, said, Verdict(None, "unknown", because))


def _holding(case: _Case) -> dict[int, LogWindow]:
    return {**case.showing, **case.parted}


def _different_records(case: _Case) -> AuditFinding:
    nodes = tuple(sorted(_holding(case)))
    said = sentence(f"{named(nodes)} hold different records at offset {case.record.offset}")
    held = {node: _at(window, case.record) for node, window in _holding(case).items()}
    return _about_key(case, "corrupt-batch", nodes, said, Verdict(None, "unknown", parted(held)))
