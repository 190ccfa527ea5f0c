"""Logs in which a record is one letter, and the rules of cleaning on them.

    v k   a value      t k   a tombstone      V k p   a value in producer p's transaction
    C p   COMMIT       A p   ABORT

The same rules as `log.cleaner_rules`, in a few lines, with time left out: every delete horizon has
passed already. `Faults` plants one mistake at a time, here or in the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from sexton.machines.compaction import Removable


class Record(NamedTuple):
    offset: int
    kind: str  # v, t, V, C or A
    key: str
    producer: str


def script(text: str) -> tuple[Record, ...]:
    """`v k; t k; v z` as records at offsets 0, 1, 2."""
    records = []
    for offset, part in enumerate(text.split(";")):
        kind, *rest = part.split()
        key = rest[0] if kind in "vtV" else ""
        producer = rest[-1] if kind in "VCA" else ""
        records.append(Record(offset, kind, key, producer))
    return tuple(records)


@dataclass(frozen=True, slots=True)
class Faults:
    """One planted mistake each; all off is the protocol as it should be."""

    independent: bool = False  # Apache Kafka: no bounds, no bit cleared, nobody registers
    minimum_over_isr: bool = False  # MTRO over the ISR only
    silence_counts_as_done: bool = False  # a replica that never reported is ignored
    stable_offset_as_mxfo: bool = False  # MXFO is the last stable offset; no bit is cleared
    kept_reports: bool = False  # a report of an earlier incarnation still counts
    trusted_disk: bool = False  # nobody checks who registers against MTRO and MXRO
    uncommitted_supersedes: bool = False  # rule 1 with an uncommitted later record
    unreplicated_marker_resolves: bool = False  # a marker above the high watermark counts
    added_replica_is_clean: bool = False  # an empty log claims to be clean up to its end
    reported_before_sync: bool = False  # MCCO is durable before the cleaned log is
    markers_without_bound: bool = False  # a marker goes without asking MXRO
    late_announcements: bool = False  # an announcement of an old term is believed
    unclean_without_discard: bool = False  # records were lost, and nobody discards


NO_FAULTS = Faults()


def planted() -> list[str]:
    """The names of all mistakes that can be planted."""
    return [f.name for f in fields(Faults)]


def text_of(record: Record) -> str:
    return " ".join(word for word in (record.kind, record.key, record.producer) if word)


def marker_of(record: Record, log: tuple[Record, ...]) -> Record | None:
    """The marker that ends the transaction of a record: the next one of its producer, any one."""
    for other in log:
        if (
            other.offset > record.offset
            and other.kind in "CA"
            and other.producer == record.producer
        ):
            return other
    return None


def view(log: tuple[Record, ...]) -> tuple[tuple[str, ...], ...]:
    """What a read_committed consumer makes of a log: live keys, and what is still open."""
    live: dict[str, int] = {}
    stuck = []
    for record in log:
        if record.kind == "V":
            marker = marker_of(record, log)
            if marker is None:
                stuck.append(record.producer)
                continue
            if marker.kind == "A":
                continue
        if record.kind in "vV":
            live[record.key] = record.offset
        elif record.kind == "t":
            live.pop(record.key, None)
    keys = tuple(f"{key}@{offset}" for key, offset in sorted(live.items()))
    return keys, tuple(f"{producer} open" for producer in stuck)


def stable(log: tuple[Record, ...], end: int, hw: int, faults: Faults) -> int:
    """The last stable offset of one replica."""
    bound = end if faults.unreplicated_marker_resolves else hw
    for record in log:
        if record.kind == "V":
            marker = marker_of(record, log)
            if marker is None or marker.offset >= bound:
                return min(hw, record.offset)
    return hw


def cleaned(
    log: tuple[Record, ...], end: int, removable: Removable, faults: Faults
) -> tuple[Record, ...]:
    """What a pass over [0, end) leaves."""
    settled = _settled(log, end, keeps_bit=faults.independent or faults.stable_offset_as_mxfo)
    kept = []
    for record in settled:
        later = [
            r for r in settled
            if r.offset > record.offset and r.key == record.key and r.kind in "vtV"
            and (r.offset < end or faults.uncommitted_supersedes)
        ]  # fmt: skip
        if record.offset >= end:
            kept.append(record)
        elif record.kind in "vtV":
            buried = record.kind == "t" and record.offset < removable.mtro
            if not later and not buried:
                kept.append(record)
        elif not _marker_may_go(record, settled, removable, faults):
            kept.append(record)
    return tuple(kept)


def _settled(log: tuple[Record, ...], end: int, *, keeps_bit: bool) -> tuple[Record, ...]:
    """The log with the outcome of every transaction below `end` applied."""
    settled = []
    for record in log:
        if record.kind != "V" or record.offset >= end:
            settled.append(record)
            continue
        marker = marker_of(record, log)
        assert marker is not None
        if marker.kind == "C":
            settled.append(record if keeps_bit else record._replace(kind="v"))
    return tuple(settled)


def _marker_may_go(
    marker: Record, log: tuple[Record, ...], removable: Removable, faults: Faults
) -> bool:
    if any(r.kind == "V" and marker_of(r, log) == marker for r in log):
        return False
    return marker.offset < removable.mxro or faults.markers_without_bound
