"""A validation as files: the HTML page, and a Parquet table with one row for each finding.

A file appears under its name when it is complete.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sexton.base.errors import Missing
from sexton.report.audit_files import written_whole
from sexton.report.validation_html import html_page
from sexton.report.validation_page import ValidationPage, finding_of, in_reading_order

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
    """All findings that are told one by one; without any the file has its columns and no rows."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Missing("pyarrow", "is not installed", "pip install sexton[parquet]") from None
    kinds = {
        "string": pa.string(), "int32": pa.int32(), "int64": pa.int64(),
        "timestamp": pa.timestamp("ms", "UTC"),
    }  # fmt: skip
    schema = pa.schema([(name, kinds[kind]) for name, kind in FINDINGS])
    rows = [dict(zip(schema.names, row, strict=True)) for row in finding_rows(page)]
    table = pa.Table.from_pylist(rows, schema=schema)
    written_whole(target, lambda draft: pq.write_table(table, draft, compression="zstd"))


def write_html(target: Path, page: ValidationPage) -> None:
    text = html_page(page)
    written_whole(target, lambda draft: _write_text(draft, text))


def _write_text(target: Path, text: str) -> None:
    target.write_text(text, encoding="utf-8")
