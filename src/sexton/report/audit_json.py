"""A finding of the audit as one JSON object, for programs. Keys are only ever added.

Times are milliseconds, sizes bytes, replicas numbers; what a sentence says is there as a field too.
Record keys are digests unless the page shows them; values are digests always.
"""

from __future__ import annotations

from typing import Any

from sexton.audit.finding import AuditFinding
from sexton.audit.remedies import runbook
from sexton.audit.window import LogWindow, Slot
from sexton.report.audit_page import AuditPage
from sexton.report.audit_steps import Advice
from sexton.report.audit_words import key_text

Json = dict[str, Any]


def audit_finding_object(
    finding: AuditFinding, page: AuditPage, advice: Advice | None = None
) -> Json:
    """One finding, with its evidence; whoever asks for many has made the advice before."""
    steps = (advice or Advice(page)).steps(finding)
    return {
        "identity": finding.identity,
        "code": finding.code,
        "severity": finding.severity,
        "topic": finding.partition.topic,
        "partition": finding.partition.partition,
        "replicas": list(finding.replicas),
        "message": finding.message,
        "key": key_text(finding.key, page),
        "offsets": {str(node): offset for node, offset in sorted(finding.offsets.items())},
        "values": {str(node): value for node, value in sorted(finding.values.items())},
        "transactions": [each.to_json() for each in finding.transactions],
        "right": None if finding.verdict.right is None else list(finding.verdict.right),
        "certainty": finding.verdict.certainty,
        "because": finding.verdict.because,
        "began_after_ms": finding.began_after_ms,
        "began_before_ms": finding.began_before_ms,
        "remedy": finding.remedy,
        "steps": [{"text": step.text, "commands": list(step.commands)} for step in steps],
        "runbook": runbook(finding.code),
        "windows": [_window(each, page) for each in finding.windows],
    }


def _window(window: LogWindow, page: AuditPage) -> Json:
    return {
        "node": window.node,
        "first": window.first,
        "end": window.end,
        "log_start": window.log_start,
        "last_stable": window.last_stable,
        "high_watermark": window.high_watermark,
        "slots": [_slot(each, page) for each in window.slots],
        "gaps": [list(each) for each in window.gaps],
        "thinned": window.thinned,
    }


def _slot(slot: Slot, page: AuditPage) -> Json:
    """A marker's key is Kafka's own and tells nothing."""
    return slot.to_json() | {"key": None if slot.control else key_text(slot.key, page)}
