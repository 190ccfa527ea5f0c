"""The audit as files: the HTML page, and a Parquet table of all findings.

A row of the table is one replica's part in one finding, so that a query needs no nested types:

    select code, topic, count(distinct identity) from findings where standing = 'wrong' group by all

A file appears under its name when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sexton.audit.finding import AuditFinding
from sexton.report.audit_html import html_page
from sexton.report.audit_order import in_reading_order
from sexton.report.audit_page import AuditPage
from sexton.report.audit_picture import standing_of
from sexton.report.audit_words import key_text
from sexton.report.whole_files import write_table, write_text

# Name and Arrow type. Columns are only ever added.
FINDINGS = (
    ("identity", "string"), ("code", "string"), ("severity", "string"), ("topic", "string"),
    ("partition", "int32"), ("message", "string"), ("key", "string"), ("certainty", "string"),
    ("because", "string"), ("began_after", "timestamp"), ("began_before", "timestamp"),
    ("remedy", "string"), ("node", "int32"), ("standing", "string"), ("offset", "int64"),
    ("value_digest", "string"), ("producer_id", "int64"), ("producer_epoch", "int32"),
    ("first_data", "int64"), ("marker_offset", "int64"), ("outcome", "string"),
    ("cluster_id", "string"), ("audited", "timestamp"),
)  # fmt: skip


def finding_rows(page: AuditPage) -> Iterator[tuple[Any, ...]]:
    """Rows under `FINDINGS`: for each finding one per replica that has a part in it."""
    for finding in in_reading_order(page.findings):
        for node in _nodes(finding):
            yield _row(finding, node, page)


def _nodes(finding: AuditFinding) -> list[int]:
    nodes = {*finding.replicas, *finding.offsets, *(finding.verdict.right or ())}
    return sorted(nodes | {each.node for each in finding.transactions})


def _row(finding: AuditFinding, node: int, page: AuditPage) -> tuple[Any, ...]:
    transaction = next((each for each in finding.transactions if each.node == node), None)
    taken: tuple[Any, ...] = (None,) * 5
    if transaction is not None:
        taken = (
            transaction.producer_id, transaction.epoch, transaction.first_data,
            transaction.marker_offset, transaction.outcome,
        )  # fmt: skip
    return (
        finding.identity, finding.code, finding.severity, finding.partition.topic,
        finding.partition.partition, finding.message, key_text(finding.key, page),
        finding.verdict.certainty, finding.verdict.because, finding.began_after_ms,
        finding.began_before_ms, finding.remedy, node, standing_of(node, finding),
        finding.offsets.get(node), finding.values.get(node), *taken,
        page.cluster_id, page.started_ms,
    )  # fmt: skip


def write_parquet(target: Path, page: AuditPage) -> None:
    """All findings."""
    write_table(target, FINDINGS, finding_rows(page))


def write_html(target: Path, page: AuditPage) -> None:
    write_text(target, html_page(page))
