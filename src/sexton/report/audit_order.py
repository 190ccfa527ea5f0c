"""In which order does one want to read findings?

The worst first, and what belongs together beside each other: by severity, code and partition. A
code's place is by how much harm it does to those who read the topic, not by its name.

A broker that was away for too long is wrong about thousands of keys in hundreds of topics. Nobody
looks at a picture of each: `to_draw` takes as many as somebody may, of every kind and place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sexton.audit.finding import AuditFinding
from sexton.report.findings import SEVERITIES

_HARM = (
    "tombstone-divergence",
    "aborted-as-committed",
    "committed-as-aborted",
    "missing-record",
    "stuck-partition",
    "corrupt-batch",
    "hanging-transaction",
    "marker-mismatch",
    "offset-gap",
)


def in_reading_order(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    every = list(findings)
    worst = {
        code: min(SEVERITIES.index(each.severity) for each in every if each.code == code)
        for code in {each.code for each in every}
    }
    return sorted(every, key=lambda each: (worst[each.code], *_place(each)))


def to_draw(ordered: Sequence[AuditFinding], most: int) -> frozenset[int]:
    """Which of them, by their place in the order: of each code one, of each topic, and so on."""
    of_code: Counter[str] = Counter()
    of_topic: Counter[tuple[str, str]] = Counter()
    ranks = []
    for at, each in enumerate(ordered):
        topic = each.code, each.partition.topic
        ranks.append((of_topic[topic], of_code[each.code], at))
        of_topic[topic] += 1
        of_code[each.code] += 1
    return frozenset(at for _, _, at in sorted(ranks)[:most])


def _place(finding: AuditFinding) -> tuple[int, str, str, int, int]:
    code = finding.code
    offsets = [offset for offset in finding.offsets.values() if offset is not None]
    return (
        _HARM.index(code) if code in _HARM else len(_HARM),
        code,
        finding.partition.topic,
        finding.partition.partition,
        min(offsets, default=0),
    )
