"""Every code that something can report is on the page about findings, and no other is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/findings.md").read_text(encoding="utf-8")
KEBAB = re.compile(r"[a-z]+(?:-[a-z]+)+")
REPORTS = {"Finding", "AuditFinding", "_finding", "say", "Wrong"}  # what is called with a code


def constants(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def reported(text: str) -> Iterator[str]:
    """The codes in calls that report something."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [*node.args[:2], *(each.value for each in node.keywords if each.arg == "code")]
            for each in given if name in REPORTS else ():
                if isinstance(each, ast.Constant) and KEBAB.fullmatch(str(each.value)):
                    yield str(each.value)


SOURCES = [path.read_text(encoding="utf-8") for path in (ROOT / "src/sexton").rglob("*.py")]


def on_the_page() -> set[str]:
    first_cells = re.findall(r"^\| (.*?) \|", PAGE, re.MULTILINE)
    return {code for cell in first_cells for code in re.findall(r"`([a-z-]+)`", cell)}


def test_every_code_has_its_line() -> None:
    used = {code for text in SOURCES for code in reported(text)}
    assert len(used) > 40
    assert used - on_the_page() == set()


def test_every_line_has_its_code() -> None:
    said = {text for source in SOURCES for text in constants(source)}
    assert on_the_page() - said == set()


def test_a_code_in_a_call_is_seen() -> None:
    assert list(reported('Finding("new-code", "error", where, "why")')) == ["new-code"]
    assert list(reported('finding(code="new-code")')) == []
    assert list(reported('say(where, "other-code")')) == ["other-code"]


def test_what_audits_and_validations_find_has_a_runbook() -> None:
    linked = set(re.findall(r"\]\(\.\./runbook/([a-z-]+)\.md\)", PAGE)) - {"index"}
    pages = {path.stem for path in (ROOT / "docs/runbook").glob("*.md")} - {"index"}
    assert linked == pages
