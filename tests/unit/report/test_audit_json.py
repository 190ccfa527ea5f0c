from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sexton.base.errors import ConfigError
from sexton.report.audit_files import FINDINGS, finding_rows, write_html, write_parquet
from sexton.report.audit_html import html_page
from sexton.report.audit_json import audit_finding_object
from tests.unit.report.audit_examples import ABORTED, CLEAN, EACH, NOON, PAGE, TOMBSTONE

FINDING_KEYS = [
    "identity", "code", "severity", "topic", "partition", "replicas", "message", "key", "offsets",
    "values", "transactions", "right", "certainty", "because", "began_after_ms",
    "began_before_ms", "remedy", "steps", "runbook", "windows",
]  # fmt: skip


def test_a_program_reads_stable_keys() -> None:
    for finding in EACH:
        assert list(json.loads(json.dumps(audit_finding_object(finding, PAGE)))) == FINDING_KEYS


def test_a_finding_brings_its_evidence() -> None:
    found = json.loads(json.dumps(audit_finding_object(ABORTED, PAGE)))
    assert found["right"] == [1, 2]
    assert found["certainty"] == "certain"
    assert found["offsets"] == {"1": None, "2": None, "3": 40}
    assert found["transactions"][2] == {
        "node": 3, "producer_id": 7001, "epoch": 4, "first_data": 40, "marker_offset": 47,
        "outcome": "committed",
    }  # fmt: skip
    assert [slot["kind"] for slot in found["windows"][0]["slots"]] == [
        "value", "abort", "value", "commit",
    ]  # fmt: skip
    assert found["runbook"] == "docs/runbook/aborted-as-committed.md"


def test_keys_are_digests_everywhere_unless_asked_for() -> None:
    key = b"alice@example.org"
    windows = tuple(
        replace(each, slots=tuple(replace(slot, key=key) for slot in each.slots))
        for each in TOMBSTONE.windows
    )
    found = replace(TOMBSTONE, key=key, windows=windows)
    page = replace(PAGE, findings=(found,))
    hidden = json.dumps(audit_finding_object(found, page)) + str(list(finding_rows(page)))
    assert "alice" not in hidden
    assert "YWxpY2" not in hidden  # nor as base64
    shown = replace(page, show_keys=True)
    assert "alice@example.org" in json.dumps(audit_finding_object(found, shown))
    assert "alice@example.org" in str(list(finding_rows(shown)))


def test_parquet_has_a_row_for_each_replica_of_each_finding(tmp_path: Path) -> None:
    target = tmp_path / "findings.parquet"
    write_parquet(target, PAGE)
    table = pq.read_table(target)
    assert table.column_names == [name for name, _ in FINDINGS]
    rows = table.to_pylist()
    assert {row["identity"] for row in rows} == {each.identity for each in EACH}
    tombstone = [row for row in rows if row["code"] == "tombstone-divergence"]
    assert [(row["node"], row["standing"], row["offset"]) for row in tombstone] == [
        (1, "right", None),
        (2, "right", 18),
        (3, "wrong", 17),
    ]
    aborted = [row for row in rows if row["code"] == "aborted-as-committed"]
    assert [(row["outcome"], row["marker_offset"]) for row in aborted] == [
        ("aborted", 43), ("aborted", 43), ("committed", 47),
    ]  # fmt: skip
    assert int(tombstone[0]["began_before"].timestamp() * 1000) == NOON
    assert list(tmp_path.iterdir()) == [target]


def test_a_clean_audit_has_columns_and_no_rows(tmp_path: Path) -> None:
    write_parquet(tmp_path / "none.parquet", CLEAN)
    table = pq.read_table(tmp_path / "none.parquet")
    assert table.num_rows == 0
    assert table.column_names == [name for name, _ in FINDINGS]


def test_the_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "audit.html"
    write_html(target, PAGE)
    assert target.read_text(encoding="utf-8") == html_page(PAGE)
    assert list(tmp_path.iterdir()) == [target]
    for write in (write_html, write_parquet):
        with pytest.raises(ConfigError, match="cannot be written: no such file or directory"):
            write(tmp_path / "nowhere" / "audit", PAGE)
