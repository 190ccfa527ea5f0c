"""The third look: evidence for each suspicion, read now, and what the rules make of it."""

from __future__ import annotations

from collections.abc import Iterator

from sexton.audit.compare import (
    KeySuspicion,
    SpanSuspicion,
    look_at,
    ranges_differing,
)
from sexton.audit.finding import AuditFinding
from sexton.audit.rules import judge_alone, judge_gaps, judge_key, judge_range, judge_span
from sexton.survey.evidence import Bench, bench
from sexton.survey.rounds import MOST_JUDGED, Case


async def judge(case: Case) -> None:
    """Adds to the case's findings all that the rules find in what was read so far."""
    for facts in case.furthest().values():
        case.findings += judge_alone(facts)
    if not case.plan.compacted and case.plan.groups:
        case.findings += judge_gaps(case.facts_of(0))
    suspicions, ranges = case.suspicions, list(_ranges(case))
    case.not_judged = sum(case.left_out.values()) + sum(
        max(0, len(each) - MOST_JUDGED) for each in (suspicions, ranges)
    )
    if suspicions or ranges:
        async with bench(case.plan) as at:
            for suspicion in suspicions[:MOST_JUDGED]:
                case.findings += await _judged(case, at, suspicion)
            for group, first, end in ranges[:MOST_JUDGED]:
                nodes = case.plan.groups[group].nodes
                windows = await at.windows(first, end, nodes)
                case.findings += judge_range(case.plan.partition, list(windows.values()))
        case.unread.update(at.unreadable)


def _ranges(case: Case) -> Iterator[tuple[int, int, int]]:
    for number, group in enumerate(case.plan.groups):
        if not group.scope.compacted:
            for first, end in ranges_differing(case.facts_of(number)):
                yield number, first, end


async def _judged(
    case: Case, at: Bench, suspicion: KeySuspicion | SpanSuspicion
) -> list[AuditFinding]:
    first, end, focus = look_at(suspicion)
    match suspicion:
        case KeySuspicion():
            windows = await at.windows(first, end, suspicion.entries, focus)
            found = judge_key(suspicion, windows, replicas=len(case.plan.places))
        case SpanSuspicion():
            windows = await at.windows(first, end, (suspicion.node, *suspicion.others), focus)
            found = judge_span(suspicion, windows)
    return [] if found is None else [found]
