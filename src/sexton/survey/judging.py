"""The third look: evidence for each suspicion, read now, and what the rules make of it.

Nobody reads a whole log for it. Where records are so large that the look ends before it has come to
what is in question, no replica is said to lack it: there is a closer look, or it is counted as not
judged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from sexton.audit.compare import (
    KeySuspicion,
    SpanSuspicion,
    in_question,
    look_after,
    look_at,
    look_closely_at,
    ranges_differing,
)
from sexton.audit.finding import AuditFinding
from sexton.audit.rules import judge_alone, judge_gaps, judge_key, judge_range, judge_span
from sexton.audit.window import LogWindow
from sexton.survey.evidence import Bench, bench
from sexton.survey.rounds import MOST_JUDGED, Case, not_comparable

MOST_PIECES = 16  # of one stretch, each of as many bytes as one look takes


async def judge(case: Case) -> None:
    """Adds to the case's findings all that the rules find in what was read so far."""
    furthest = list(case.furthest().values())
    for facts in furthest:
        case.findings += judge_alone(facts)
    if not case.plan.compacted and case.plan.groups:
        case.findings += judge_gaps(case.facts_of(0))
    suspicions, ranges = case.suspicions, list(_ranges(case))
    case.not_judged = sum(case.left_out.values()) + not_comparable(case)
    case.not_judged += sum(max(0, len(each) - MOST_JUDGED) for each in (suspicions, ranges))
    if len(furthest) > 1:  # one alone has nobody to differ from
        case.not_judged += max(facts.left_out for facts in furthest)
    if suspicions or ranges:
        async with bench(case.plan) as at:
            for suspicion in suspicions[:MOST_JUDGED]:
                case.findings += await _judged(case, at, suspicion)
            for group, first, end in ranges[:MOST_JUDGED]:
                case.findings += await _judged_range(case, at, group, first, end)
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
            if not _reach(windows, suspicion):
                first, end, focus = look_closely_at(suspicion)
                windows = await at.windows(first, end, suspicion.entries, focus)
            if not _reach(windows, suspicion):
                case.not_judged += 1
                return []
            found = judge_key(suspicion, windows, replicas=len(case.plan.places))
            if found and await _is_doubtful(case, at, suspicion):
                return []
            return found
        case SpanSuspicion():
            windows = await at.windows(first, end, (suspicion.node, *suspicion.others), focus)
            taken = judge_span(suspicion, windows)
            shows_data = not {*suspicion.others} <= {*suspicion.starts}
            if taken is None and shows_data and not _reach(windows, suspicion):
                case.not_judged += 1
            return [] if taken is None else [taken]


async def _is_doubtful(case: Case, at: Bench, suspicion: KeySuspicion) -> bool:
    """Can a replica have forgotten even the tombstone of a key that was deleted while we read?

    It is kept for `delete.retention.ms`. If our reading has taken that long, each replica is asked
    what it was sent since its own turn; whoever has a later record of the key is not to blame.
    """
    if (time.monotonic() - case.again_s) * 1000 < case.plan.delete_retention_ms:
        return False
    for node in suspicion.entries:
        first, end, focus = look_after(suspicion, node)
        for window in (await at.windows(first, end, (node,), focus)).values():
            if any(slot.key == suspicion.key for slot in window.slots):
                return True
            if window.end < window.last_stable:  # there is too much of it
                case.not_judged += 1
                return True
    return False


def _reach(windows: Mapping[int, LogWindow], suspicion: KeySuspicion | SpanSuspicion) -> bool:
    """Did every look come as far as what is in question, or as the replica itself?"""
    last = in_question(suspicion)
    return all(window.end >= min(last + 1, window.last_stable) for window in windows.values())


async def _judged_range(
    case: Case, at: Bench, group: int, first: int, end: int
) -> list[AuditFinding]:
    """Piece by piece, up to one in which they differ.

    Their checksums do. If no record does, it is in what is not compared one by one, headers say; or
    in what retention has deleted since.
    """
    shortened = False
    for _piece in range(MOST_PIECES):
        windows = [*(await at.windows(first, end, case.plan.groups[group].nodes)).values()]
        found = judge_range(case.plan.partition, windows)
        if found or len(windows) < 2:
            return found  # or somebody could not be read
        shortened = shortened or any(window.first > first for window in windows)
        reached = min(window.end for window in windows)
        if reached >= end and shortened:
            return []
        if reached >= end or reached <= first:
            break
        first = reached
    case.not_judged += 1
    return []
