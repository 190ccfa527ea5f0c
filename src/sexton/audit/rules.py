"""The rules by what they are asked, wherever they are told.

judge_key    a key whose last record differs                        key_rules
judge_span   a transaction that one takes for aborted               transaction_rules, outcomes
judge_open   a transaction that a replica waits for                 waiting_rules
may_hang     one that may be under way, if that is hidden from us   waiting_rules
judge_alone  what one replica shows without the others              below
judge_range  stretches of a topic that is not compacted             batch_rules
judge_gaps   what nobody holds of such a topic                      batch_rules
merged       the same thing found twice, by different ways          below
"""

from __future__ import annotations

from collections.abc import Iterable

from sexton.audit.batch_rules import judge_damage, judge_gaps, judge_range
from sexton.audit.facts import ReplicaFacts
from sexton.audit.finding import AuditFinding
from sexton.audit.key_rules import judge_key
from sexton.audit.transaction_rules import judge_misfits, judge_span
from sexton.audit.waiting_rules import judge_open, may_hang

__all__ = [
    "judge_alone",
    "judge_gaps",
    "judge_key",
    "judge_open",
    "judge_range",
    "judge_span",
    "may_hang",
    "merged",
]


def judge_alone(facts: ReplicaFacts) -> list[AuditFinding]:
    """Markers that cannot be their data's own, and batches that cannot be read."""
    return judge_misfits(facts) + judge_damage(facts)


def merged(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """Each thing once: the finding that says most about a replica's transaction stands for all.

    A key names more than a transaction, and what others know more than what one replica shows. Keys
    stay apart, each is somebody's data.
    """
    ranked = sorted(findings, key=_rank)
    kept: list[AuditFinding] = []
    blamed: dict[str, set[int]] = {}  # by identity: replicas that are named already
    told: set[tuple[int, int, int]] = set()  # node, producer, marker
    for finding in ranked:
        about = {
            (each.node, each.producer_id, each.marker_offset)
            for each in finding.transactions
            if each.marker_offset is not None and each.node in finding.replicas
        }
        named = blamed.setdefault(finding.identity, set())
        known = bool(named) and named.issuperset(finding.replicas)
        if known or (finding.key is None and about and about <= told):
            continue
        kept.append(finding)
        named.update(finding.replicas)
        told |= about
    return kept


def _rank(finding: AuditFinding) -> int:
    if finding.key is not None:
        return 0
    return 2 if finding.code == "marker-mismatch" else 1
