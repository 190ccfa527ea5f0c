"""What is known of one partition, and what to read next to know more.

    first round    digests of every replica            (tasks, all partitions at once)
    second round   keys of buckets that differ;        (tasks, few partitions)
                   data of aborted transactions that some replicas do not know of
    and again      keys that one task has no room for  (tasks, hardly any)
    third look     the stretch in question, of every replica, and the rules (`judging`)

On a healthy cluster the first round is nearly all there is: replicas that were cleaned at other
times have the same digests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sexton.audit.compare import (
    KeySuspicion,
    SpanSuspicion,
    confirmed_spans,
    differing_buckets,
    key_suspicions,
    lowest_ceiling,
    ranges_differing,
    span_suspicions,
    was_compacted,
)
from sexton.audit.facts import AbortedSpan, BucketEntries, ReplicaFacts
from sexton.audit.finding import AuditFinding
from sexton.audit.key_entries import HIGHEST
from sexton.client.replica import ReplicaOffsets
from sexton.survey.plan import Group, PartitionPlan, beginning
from sexton.survey.tasks import FoldTask

At = tuple[int, int]  # which group of the plan, which node

# Of one partition, for its keys: each reads all replicas and has room for ten thousand or more.
MOST_READINGS = 10
# Of one partition; each costs a read of every replica, and nobody reads more.
MOST_JUDGED = 100


@dataclass(slots=True)
class Case:
    """One partition, and all that is known of it so far."""

    plan: PartitionPlan
    facts: dict[At, ReplicaFacts] = field(default_factory=dict)
    entries: dict[At, BucketEntries] = field(default_factory=dict)  # until they are compared
    suspicions: list[KeySuspicion | SpanSuspicion] = field(default_factory=list)
    ceilings: dict[int, int] = field(default_factory=dict)  # by group: compared up to here
    left_out: dict[int, int] = field(default_factory=dict)  # by group: keys from there on, about
    findings: list[AuditFinding] = field(default_factory=list)
    unread: dict[int, str] = field(default_factory=dict)  # node, why
    stretches: int = 0  # that are not alike, of a topic that was compacted once
    not_judged: int = 0  # what differs, or may, and was not looked at one by one
    undecided: list[str] = field(default_factory=list)  # what nobody could say more of, and why
    again_s: float = 0.0  # by a clock that never goes back: when keys were begun to be read

    def __post_init__(self) -> None:
        self.unread.update(self.plan.unreadable)

    def facts_of(self, group: int) -> list[ReplicaFacts]:
        """Of one group's replicas, as far as they could be read."""
        nodes = self.plan.groups[group].nodes
        return [self.facts[group, node] for node in nodes if (group, node) in self.facts]

    def entries_of(self, group: int) -> list[BucketEntries]:
        nodes = self.plan.groups[group].nodes
        return [self.entries[group, node] for node in nodes if (group, node) in self.entries]

    def furthest(self) -> dict[int, ReplicaFacts]:
        """One set of facts for each replica: of the group in which it is compared furthest."""
        found: dict[int, ReplicaFacts] = {}
        for (_group, node), facts in self.facts.items():
            if node not in found or facts.scope.end > found[node].scope.end:
                found[node] = facts
        return found

    def span_suspicions(self, group: int) -> list[SpanSuspicion]:
        return span_suspicions(self.facts_of(group))


# ── the tasks of each round ──


def first_round(case: Case) -> Iterator[tuple[At, FoldTask]]:
    for number, group in enumerate(case.plan.groups):
        for node in group.nodes:
            size = case.plan.sizes.get(node, 0)
            yield (number, node), FoldTask(group.scope, case.plan.places[node], size=size)


def take_for_compacted(case: Case) -> bool:
    """Was the topic compacted once, though it is not now? Then it is read again, by its keys."""
    if case.plan.compacted or not case.plan.groups:  # no group: nobody could be read
        return False
    if not was_compacted(case.facts_of(0)):
        return False
    groups = tuple(
        replace(group, scope=replace(group.scope, compacted=True)) for group in case.plan.groups
    )
    for number in range(len(groups)):
        case.stretches += len(ranges_differing(case.facts_of(number)))
    case.plan = replace(case.plan, compacted=True, groups=groups)
    case.facts.clear()
    return True


def not_comparable(case: Case) -> int:
    """Stretches that are not alike, and whose records have no keys to compare them by.

    Compaction has taken some, at another time on each replica; or each has lost something.
    """
    return 0 if _has_keys(case) else case.stretches


def _has_keys(case: Case) -> bool:
    return any(each.keys or each.tombstones for each in case.facts.values())


def take_for_plain(case: Case) -> bool:
    """Has no record of a copied directory a key? Then it is read again, batch by batch.

    Files do not say whether their topic is compacted. One that is takes no record without a key.
    """
    shown = any(each.records > each.aborted_records for each in case.facts.values())
    if _has_keys(case) or not shown:
        return False
    groups = tuple(
        replace(group, scope=replace(group.scope, compacted=False)) for group in case.plan.groups
    )
    case.plan = replace(case.plan, compacted=False, groups=groups)
    case.facts.clear()
    return True


def differs(case: Case) -> bool:
    """Is a second round needed?"""
    return any(
        differing_buckets(case.facts_of(number)) or case.span_suspicions(number)
        for number in range(len(case.plan.groups))
    )


def second_round(case: Case, stands: Mapping[int, ReplicaOffsets]) -> Iterator[tuple[At, FoldTask]]:
    """`stands`: where the replicas are by now; they are compared up to there."""
    for number, group in enumerate(case.plan.groups):
        fresh = _fresh(group, stands, case.plan.leader)
        if fresh is None:
            continue
        buckets = differing_buckets(case.facts_of(number)) if group.scope.compacted else frozenset()
        probed = _to_probe(case.span_suspicions(number))
        for node in fresh.nodes:
            spans = probed.get(node, ())
            if buckets or spans:
                yield (
                    (number, node),
                    FoldTask(fresh.scope, case.plan.places[node], buckets, spans),
                )


def compare_entries(case: Case) -> None:
    """Turns the entries that were read into suspicions."""
    for number in range(len(case.plan.groups)):
        found = case.entries_of(number)
        if not found:
            continue
        case.suspicions += key_suspicions(found)
        if number not in case.ceilings:  # the first reading has looked at transactions as well
            case.suspicions += confirmed_spans(case.span_suspicions(number), found)
        case.ceilings[number] = lowest_ceiling(found)
        case.left_out[number] = max(each.left_out for each in found)
    case.entries.clear()


def next_reading(case: Case, at: At, task: FoldTask) -> FoldTask | None:
    """The same once more, for keys that there was no room for; None if that is not needed.

    Nor is it if more is suspected by now than will be judged: all cannot be said any more.
    """
    number, node = at
    ceiling = case.ceilings.get(number, HIGHEST)
    if ceiling == HIGHEST or node in case.unread or len(case.suspicions) > MOST_JUDGED:
        return None
    return replace(task, floor=ceiling, spans=())


def _fresh(group: Group, stands: Mapping[int, ReplicaOffsets], leader: int) -> Group | None:
    """The same group as it stands now; None if there is nobody left to compare.

    What was compared before is compared again. A replica that does not come as far any more, just
    restarted or cut, is waited for and else named (`tasks`): if all were compared to where it is,
    what differs past that would seem to agree.
    """
    there = tuple(node for node in group.nodes if node in stands)
    if len(there) < 2:
        return None
    start = beginning(stands, there, leader, deletes=group.scope.deletes)
    start = max(group.scope.start, start)
    end = max(group.scope.end, min(stands[node].last_stable for node in there))
    return Group(replace(group.scope, start=start, end=max(start, end)), there)


def _to_probe(suspicions: list[SpanSuspicion]) -> dict[int, tuple[AbortedSpan, ...]]:
    """For each node, the aborted transactions that others know and it does not."""
    wanted: dict[int, dict[AbortedSpan, None]] = {}
    for suspicion in suspicions:
        for node in suspicion.others:
            wanted.setdefault(node, {})[suspicion.span] = None
    return {node: tuple(spans) for node, spans in wanted.items()}
