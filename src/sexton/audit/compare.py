"""What do replicas seem to disagree about?

    digests of all keys ──▶ buckets that differ ──▶ keys that differ ──▶ KeySuspicion
    aborted transactions ──▶ those that one has and another lacks ──▶ SpanSuspicion

A suspicion is no finding. Healthy replicas are cleaned at different times, so one still lists a
transaction of which another has forgotten everything, and a record past the common end may have
removed one below it here and not yet there. The functions below leave out what can be explained
without another look; `look_at` says where to look for the rest.

A replica that could not be read to the common end is not compared, and whoever reads must say so.
Nor is what may be hidden in a damaged batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sexton.audit.facts import AbortedSpan, BucketEntries, KeyEntry, ReplicaFacts, Scope
from sexton.audit.key_entries import HIGHEST, fingerprint
from sexton.audit.looking import NEAR
from sexton.audit.plain import Plain
from sexton.audit.range_digests import range_step
from sexton.audit.window import Focus
from sexton.base.lazy_dataclass import dataclass

# A window goes to the end of the log if that is no further than this. Then it can be said for sure
# that nothing was ever written after a record that could have removed it.
TO_THE_END = 5_000
NO_END = 1 << 62
LONGEST = 1_000_000  # offsets; a marker further away than this is not looked for


@dataclass(frozen=True, slots=True)
class KeySuspicion(Plain):
    """A key whose last visible record is not the same everywhere."""

    scope: Scope
    key: bytes
    entries: Mapping[int, KeyEntry | None]  # by node; None: no visible record of the key at all
    first_repeats: Mapping[int, int | None]  # by node, as in ReplicaFacts
    read_to: Mapping[int, int]  # by node: up to there the key has no other record


@dataclass(frozen=True, slots=True)
class SpanSuspicion(Plain):
    """A transaction that `node` takes for aborted and others know nothing of, or otherwise."""

    scope: Scope
    span: AbortedSpan
    node: int
    others: tuple[int, ...]
    starts: Mapping[int, int]  # of others that have the same marker: where it began for them


def comparable(facts: Sequence[ReplicaFacts]) -> list[ReplicaFacts]:
    """Those that were read to the common end."""
    return [each for each in facts if _is_comparable(each)]


def _is_comparable(facts: ReplicaFacts) -> bool:
    return facts.read_to >= facts.scope.end


def _differing(facts: Sequence[ReplicaFacts]) -> list[int]:
    digests = [np.frombuffer(each.digests, "<u8") for each in comparable(facts)]
    if len(digests) < 2:
        return []
    all_of_them = np.stack(digests)
    differs = (all_of_them != all_of_them[0]).any(axis=0)
    return [int(bucket) for bucket in np.flatnonzero(differs)]


def differing_buckets(facts: Sequence[ReplicaFacts]) -> frozenset[int]:
    """Buckets of keys to be looked at one by one."""
    return frozenset(_differing(facts))


def ranges_differing(facts: Sequence[ReplicaFacts]) -> list[tuple[int, int]]:
    """Of a topic without compaction: stretches [start, end) that are not alike."""
    ranges: list[tuple[int, int]] = []
    for bucket in _differing(facts):
        scope = facts[0].scope
        step = range_step(scope.start, scope.end)
        start = scope.start + bucket * step
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        ranges.append((start, min(scope.start + (bucket + 1) * step, scope.end)))
    return ranges


def was_compacted(facts: Sequence[ReplicaFacts]) -> bool:
    """Was a topic that is not compacted now cleaned at some time? Then compare it by its keys.

    Nothing else takes single records out of every replica. (One that has lost some is found by its
    digests; the others have no gaps.)
    """
    compared = comparable(facts)
    return bool(compared) and all(each.gaps for each in compared)


# ── keys ──


def lowest_ceiling(found: Sequence[BucketEntries]) -> int:
    """Up to which fingerprint were all keys there to be compared? One alone has nobody to ask."""
    ceilings = [each.ceiling for each in found if _is_comparable(each.facts)]
    return min(ceilings) if len(ceilings) > 1 else HIGHEST


def key_suspicions(found: Sequence[BucketEntries]) -> list[KeySuspicion]:
    """Keys that differ and that nobody has written since."""
    compared = {each.node: each for each in found if _is_comparable(each.facts)}
    if len(compared) < 2:
        return []
    by_node = {
        node: {entry.key: entry for entry in each.entries} for node, each in compared.items()
    }
    scope = found[0].facts.scope
    ceiling = lowest_ceiling(found)
    log_start = max(each.facts.log_start for each in compared.values())
    written_since = {key for each in compared.values() for key in each.moved_on} | {
        entry.key for each in compared.values() for entry in each.entries if entry.beyond
    }
    keys = {key for entries in by_node.values() for key in entries} - written_since
    suspicions = []
    for key in sorted(keys):
        if ceiling < HIGHEST and fingerprint(key, scope.seed) >= ceiling:
            continue
        entries = {
            node: by_node[node].get(key)
            for node, each in sorted(compared.items())
            if not _may_be_hidden(each.facts, by_node[node].get(key))
        }
        last = max((entry.offset for entry in entries.values() if entry is not None), default=-1)
        if last < log_start and scope.deletes:
            continue  # retention has come to it on one replica, meanwhile
        if len({_shown(entry) for entry in entries.values()}) > 1:
            repeats = {node: compared[node].facts.first_repeat for node in entries}
            read_to = {node: compared[node].facts.read_to for node in entries}
            suspicions.append(KeySuspicion(scope, key, entries, repeats, read_to))
    return suspicions


def _shown(entry: KeyEntry | None) -> tuple[int, str] | None:
    """What a reader gets: a tombstone is as good as nothing."""
    if entry is None or entry.value_digest is None:
        return None
    return entry.offset, entry.value_digest


def _may_be_hidden(facts: ReplicaFacts, entry: KeyEntry | None) -> bool:
    """Can a later record of this key be in a batch that could not be read?"""
    last = -1 if entry is None else entry.offset
    return any(damage.last_offset > last for damage in facts.damage)


# ── transactions ──


def span_suspicions(facts: Sequence[ReplicaFacts]) -> list[SpanSuspicion]:
    """Aborted transactions that some replica has and another, whose log is past them, lacks."""
    holders: dict[tuple[int, int, int], tuple[int, AbortedSpan]] = {}
    known: dict[int, set[tuple[int, int, int]]] = {}
    for each in facts:
        mine = known[each.node] = set()
        for span in each.aborted:
            if span.marker_offset is not None:
                same = (span.producer_id, span.first_offset, span.marker_offset)
                mine.add(same)
                held = holders.get(same)
                if held is None or (held[1].first_data is None and span.first_data is not None):
                    holders[same] = (each.node, span)
    suspicions = []
    for same, (node, span) in holders.items():
        others = [
            each
            for each in facts
            if each.node != node
            and same not in known[each.node]
            and each.read_to > same[2]
            and each.log_start <= same[1]
        ]
        if others:
            nodes = tuple(each.node for each in others)
            starts = _later_starts(span, others)
            suspicions.append(SpanSuspicion(facts[0].scope, span, node, nodes, starts))
    return suspicions


def _later_starts(span: AbortedSpan, others: Sequence[ReplicaFacts]) -> dict[int, int]:
    """Where the same marker's transaction begins on others, after data that is hidden here."""
    return {
        each.node: theirs.first_offset
        for each in others
        for theirs in each.aborted
        if theirs.producer_id == span.producer_id
        and theirs.marker_offset == span.marker_offset
        and span.first_data is not None
        and span.first_data < theirs.first_offset
    }


def confirmed_spans(
    suspicions: Sequence[SpanSuspicion], found: Sequence[BucketEntries]
) -> list[SpanSuspicion]:
    """Those that matter, after a second reading (`Fold(spans=...)`) of the others.

    Another replica shows data of the transaction; or says that it began later, so that data which
    is hidden here was no part of it.
    """
    shown = {
        (each.node, span.producer_id, span.first_offset, span.marker_offset)
        for each in found
        for span in each.shown
    }
    by_node = {each.node: each.facts for each in found}
    confirmed = []
    for suspicion in suspicions:
        span = suspicion.span
        same = (span.producer_id, span.first_offset, span.marker_offset)
        again = [by_node[node] for node in suspicion.others if node in by_node]
        starts = _later_starts(span, again)
        others = tuple(
            each.node for each in again if (each.node, *same) in shown or each.node in starts
        )
        if others:
            confirmed.append(SpanSuspicion(suspicion.scope, span, suspicion.node, others, starts))
    return confirmed


# ── where to look ──


def in_question(suspicion: KeySuspicion | SpanSuspicion) -> int:
    """The last offset in question: a window that ends before it cannot tell who is right."""
    if isinstance(suspicion, SpanSuspicion):
        marker = suspicion.span.marker_offset
        return suspicion.span.first_offset if marker is None else marker
    return max(max(entry.offset, entry.marker_offset or 0) for entry in _latest(suspicion))


def _latest(suspicion: KeySuspicion) -> list[KeyEntry]:
    """The latest record of the key, as those have it that do."""
    entries = [entry for entry in suspicion.entries.values() if entry is not None]
    assert entries, "a key that nobody shows is no suspicion"
    last = max(entry.offset for entry in entries)
    return [entry for entry in entries if entry.offset == last]


def look_closely_at(suspicion: KeySuspicion) -> tuple[int, int, Focus]:
    """The same as `look_at`, but from the latest record's own batch on.

    For records so large that nobody reads from the older ones of the key as far as the latest. The
    older ones are believed then, like any that are too far away.
    """
    _first, end, focus = look_at(suspicion)
    first = min(min(entry.offset, entry.base_offset) for entry in _latest(suspicion))
    return max(suspicion.scope.start, first), end, focus


def look_after(suspicion: KeySuspicion, node: int) -> tuple[int, int, Focus]:
    """What was written to a replica since it was read for its keys: is the key among it?"""
    return suspicion.read_to[node], NO_END, Focus(suspicion.key, (), (), NO_END)


def look_at(suspicion: KeySuspicion | SpanSuspicion) -> tuple[int, int, Focus]:
    """Which stretch [first, end) of every replica to read, as far as it goes; and what about."""
    scope = suspicion.scope
    if isinstance(suspicion, SpanSuspicion):
        span = suspicion.span
        last = span.marker_offset if span.marker_offset is not None else span.first_offset
        focus = Focus(None, (span.producer_id,), (span.first_offset, last), last)
        return max(scope.start, span.first_offset - NEAR), last + NEAR, focus
    entries = [entry for entry in suspicion.entries.values() if entry is not None]
    latest = max(entry.offset for entry in _latest(suspicion))
    near = [entry for entry in entries if latest - entry.offset <= TO_THE_END]
    first = min(min(entry.offset, entry.base_offset) for entry in near)
    last = max(max(entry.offset, entry.marker_offset or 0) for entry in near)
    end = NO_END if scope.end - first <= TO_THE_END else min(last + NEAR, first + LONGEST)
    producers = tuple(sorted({entry.producer_id for entry in near if entry.transactional}))
    offsets = tuple(sorted({entry.offset for entry in near}))
    marker = in_question(suspicion) if producers else -1
    return max(scope.start, first - NEAR), end, Focus(suspicion.key, producers, offsets, marker)
