"""The audit as one JSON object, for programs. Keys are only ever added.

Times are milliseconds, sizes bytes, replicas numbers; what a sentence says is there as a field too.
Record keys are digests unless the page shows them; values are digests always.
"""

from __future__ import annotations

from typing import Any

from sexton.audit.finding import AuditFinding
from sexton.audit.remedies import runbook
from sexton.audit.window import LogWindow, Slot
from sexton.report.audit_order import in_reading_order
from sexton.report.audit_page import AuditPage, PartitionRead, ReplicaRead, TopicRead, topics
from sexton.report.audit_steps import Advice
from sexton.report.audit_words import key_text, verdict_sentence

Json = dict[str, Any]


def page_object(page: AuditPage) -> Json:
    """The whole page."""
    advice = Advice(page)
    return {
        "version": page.version,
        "cluster_id": page.cluster_id,
        "bootstrap": page.bootstrap,
        "offline": page.offline,
        "places": {str(node): place for node, place in page.places.items()},
        "started_ms": page.started_ms,
        "finished_ms": page.finished_ms,
        "standing": page.standing,
        "verdict": verdict_sentence(page),
        "limits": list(page.limits),
        "options": dict(page.options),
        "acknowledged": page.acknowledged,
        "keys_shown": page.show_keys,
        "topics": [_topic(each) for each in topics(page)],
        "partitions": [_partition(each) for each in page.partitions],
        "findings": [
            audit_finding_object(each, page, advice) for each in in_reading_order(page.findings)
        ],
        "incomplete": [
            {
                "subject": each.what,
                "why": each.why,
                "topic": each.partition.topic if each.partition else None,
                "partition": each.partition.partition if each.partition else None,
            }
            for each in page.incomplete
        ],
    }


def audit_finding_object(
    finding: AuditFinding, page: AuditPage, advice: Advice | None = None
) -> Json:
    """One finding, with its evidence; whoever asks for many has made the advice before."""
    todo = (advice or Advice(page)).steps(finding)
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
        "steps": [{"text": step.text, "commands": list(step.commands)} for step in todo],
        "runbook": runbook(finding.code),
        "windows": [_window(each, page) for each in finding.windows],
    }


def _topic(topic: TopicRead) -> Json:
    return {
        "topic": topic.topic,
        "standing": topic.standing,
        "partitions": len(topic.partitions),
        "replicas": len(topic.replicas),
        "records": sum(each.records for each in topic.replicas),
        "bytes": sum(each.bytes for each in topic.replicas),
        "findings": len(topic.findings),
        "incomplete": len(topic.incomplete),
    }


def _partition(read: PartitionRead) -> Json:
    return {
        "topic": read.partition.topic,
        "partition": read.partition.partition,
        "compacted": read.compacted,
        "start": read.start,
        "end": read.end,
        "assigned": list(read.assigned),
        "replicas": [_replica(each) for each in read.replicas],
    }


def _replica(read: ReplicaRead) -> Json:
    names = (
        "node", "leader", "in_sync", "log_start", "last_stable", "high_watermark", "read_to",
        "records", "bytes", "keys", "tombstones", "markers", "aborted_records",
    )  # fmt: skip
    return {name: getattr(read, name) for name in names}


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
