"""A validation as files: the HTML page, and a Parquet table with one row for each finding.

A file appears under its name when it is complete.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sexton.report.validation_html import html_page
from sexton.report.validation_page import ValidationPage, finding_of, in_reading_order
from sexton.report.whole_files import write_table, write_text

# Name and Arrow type. Columns are only ever added.
FINDINGS = (
    ("identity", "string"), ("code", "string"), ("severity", "string"), ("topic", "string"),
    ("partition", "int32"), ("message", "string"), ("key", "string"), ("id", "string"),
    ("last_value", "string"), ("new_value", "string"), ("last_partition", "int32"),
    ("last_offset", "int64"), ("new_offset", "int64"), ("last_timestamp", "timestamp"),
    ("new_timestamp", "timestamp"), ("last_producer_id", "int64"),
    ("last_producer_epoch", "int32"), ("new_producer_id", "int64"),
    ("new_producer_epoch", "int32"), ("remedy", "string"), ("cluster_id", "string"),
    ("validated", "timestamp"),
)  # fmt: skip


def finding_rows(page: ValidationPage) -> list[tuple[Any, ...]]:
    """Rows under `FINDINGS`."""
    rows = []
    for each in in_reading_order(page):
        finding = finding_of(each, page)
        rows.append(
            (
                each.identity, each.code, finding.severity, each.partition.topic,
                each.partition.partition, finding.message, page.shown(each.key),
                page.shown(each.id), each.last_value or None, each.value or None,
                each.last_partition, _known(each.last_offset), _known(each.offset),
                _known(each.last_timestamp_ms), _known(each.timestamp_ms),
                _known(each.last_producer_id), _known(each.last_producer_epoch),
                _known(each.producer_id), _known(each.producer_epoch), finding.remedy,
                page.cluster_id, page.started_ms,
            )
        )  # fmt: skip
    return rows


def _known(number: int) -> int | None:
    return None if number < 0 else number


def write_parquet(target: Path, page: ValidationPage) -> None:
    """All findings that are told one by one."""
    write_table(target, FINDINGS, finding_rows(page))


def write_html(target: Path, page: ValidationPage) -> None:
    write_text(target, html_page(page))
