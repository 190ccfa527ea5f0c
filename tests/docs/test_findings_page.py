"""Every code that something can report is on the page about findings, as severe as it is told."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from sexton.audit import remedies
from sexton.cli.doctor import CHECKS
from sexton.report import validation_page

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/findings.md").read_text(encoding="utf-8")
KEBAB = re.compile(r"[a-z]+(?:-[a-z]+)+")
SEVERITIES = ("error", "warning", "note")
REPORTS = {"Finding", "AuditFinding", "_finding", "say", "Wrong"}  # what is called with a code


def constants(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def reported(text: str) -> Iterator[str]:
    """The codes in calls that report something."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            yield from reported_by(node)


def reported_by(call: ast.Call) -> Iterator[str]:
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    given = [*call.args[:2], *(each.value for each in call.keywords if each.arg == "code")]
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


# ── severities ──

# Not said in the call: by its code, how severe it is told.
ELSEWHERE = {
    "epochs-lost": {"warning"},  # as all that is told of a log that was opened
    "index-rebuilt": {"warning"},
    "segment-removed": {"warning"},
    "offset-gap": {"warning", "note"},  # by what else is damaged
    "sequence-gap": {"warning", "note"},
    "offset-index-mismatch": {"error"},  # as all that is wrong with an index
    "time-index-mismatch": {"error"},
    "offset-before-segment": {"error"},  # these codes come from variables
    "offset-past-segment": {"error"},
    "offsets-not-increasing": {"error"},
    "store-divergence": {"error"},
    "machine-lacks": {check.severity for check in CHECKS},
}
OF_SECTION = {"Replicas": remedies.severity, "Pipelines": validation_page.severity}


def told_as(text: str) -> Iterator[tuple[str, str]]:
    """Codes and the severities beside them, in calls that report something."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            given = [*node.args, *(each.value for each in node.keywords)]
            for code in reported_by(node):
                for each in given:
                    either = [each.body, each.orelse] if isinstance(each, ast.IfExp) else [each]
                    for one in either:
                        if isinstance(one, ast.Constant) and one.value in SEVERITIES:
                            yield code, str(one.value)


def rows() -> Iterator[tuple[str, str, set[str]]]:
    """(section, code, severities) of every line."""
    for section in PAGE.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        for first, second in re.findall(r"^\| (.*?) \| (.*?) \|", section, re.MULTILINE):
            for code in re.findall(r"`([a-z-]+)`", first):
                yield title, code, set(re.findall("error|warning|note", second))


def test_every_finding_is_as_severe_as_it_is_told() -> None:
    in_calls: dict[str, set[str]] = defaultdict(set)
    for source in SOURCES:
        for code, severity in told_as(source):
            in_calls[code].add(severity)
    checked = set()
    for section, code, severities in rows():
        if section in OF_SECTION:
            assert severities == {OF_SECTION[section](code)}, (section, code)
        else:
            assert severities == (in_calls.get(code) or ELSEWHERE[code]), (section, code)
            checked.add(code)
    assert set(ELSEWHERE) == checked - set(in_calls), "said in the call by now"


def test_a_severity_in_a_call_is_seen() -> None:
    text = 'Finding("new-code", "warning" if late else "note", where, "error")'
    assert list(told_as(text))[:2] == [("new-code", "warning"), ("new-code", "note")]


def test_a_code_in_a_call_is_seen() -> None:
    assert list(reported('Finding("new-code", "error", where, "why")')) == ["new-code"]
    assert list(reported('finding(code="new-code")')) == []
    assert list(reported('say(where, "other-code")')) == ["other-code"]


def test_what_audits_and_validations_find_has_a_runbook() -> None:
    linked = set(re.findall(r"\]\(\.\./runbook/([a-z-]+)\.md\)", PAGE)) - {"index"}
    pages = {path.stem for path in (ROOT / "docs/runbook").glob("*.md")} - {"index"}
    assert linked == pages
