"""A finding in each form that someone reads it in.

A person gets a small paragraph: how bad, what, where; then why one should believe it, and what to
do. Wide tables of findings are unreadable, so there is none. A program gets a JSON object, or a
line of tab-separated columns that never change their order.

    error  corrupt-batch  orders-3/00000000000000000042.log at position 1337
           the batch's CRC is wrong
           computed=0xc0ffee stored=0xdecade
           → restore the replica from its leader
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.base.findings import Evidence, Finding, Severity
from sexton.report.tables import Cell, Column, one_line

if TYPE_CHECKING:
    from rich.text import Text

MOST_ALIKE = 5  # findings of one code that people are told in full, where there are many
MOST_NAMED = 3  # of the others, by where they are
COLUMNS = tuple(
    Column(name) for name in ("severity", "code", "where", "message", "evidence", "remedy")
)
STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
INDENT = " " * (max(map(len, SEVERITIES)) + 2)


def finding_object(finding: Finding) -> dict[str, object]:
    """The finding for JSON. Keys are only ever added."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "where": finding.where,
        "message": finding.message,
        "evidence": dict(finding.evidence),
        "remedy": finding.remedy,
        **finding.details,
    }


def finding_row(finding: Finding) -> tuple[Cell, ...]:
    """The finding as cells under `COLUMNS`."""
    evidence = _evidence_text(finding)
    return (
        finding.severity,
        finding.code,
        finding.where,
        finding.message,
        evidence,
        finding.remedy,
    )


def finding_lines(finding: Finding, width: int | None) -> Iterator[str]:
    """The finding as plain lines of at most `width` characters; None leaves lines whole."""
    yield from heading_lines(finding.severity, finding.code, finding.where, width)
    for text in (finding.message, _evidence_text(finding)):
        if text:
            yield from _wrapped(one_line(text), width)
    if finding.remedy:
        yield from _wrapped(f"→ {one_line(finding.remedy)}", width, hang=2)


def heading_lines(severity: Severity, code: str, where: str, width: int | None) -> list[str]:
    """How bad, what and where: the place goes to a line of its own if it does not fit."""
    what, where = f"{severity.ljust(len(INDENT))}{code}", one_line(where)
    if width is None or len(what) + 2 + len(where) <= width:
        return [f"{what}  {where}"]
    return [what, *_wrapped(where, width)]


def finding_text(finding: Finding, width: int) -> Text:
    """The same lines with colour, for a rich console."""
    from rich.text import Text

    first, *rest = finding_lines(finding, width)
    text = Text(first)
    text.stylize(STYLES[finding.severity], 0, len(finding.severity))
    if first[len(INDENT) :].startswith(finding.code):
        text.stylize("bold", len(INDENT), len(INDENT) + len(finding.code))
    return Text("\n").join([text, *(Text(line) for line in rest)])


def few_of_each(findings: Sequence[Finding]) -> Iterator[tuple[Finding, int]]:
    """For people: of each code the first in full, the rest together; and how many each stands for.

    A broker that is away is the reason for one in every topic.
    """
    alike: dict[tuple[Severity, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.severity, finding.code), []).append(finding)
    rests = [every[MOST_ALIKE:] for every in alike.values() if len(every) > MOST_ALIKE + 1]
    folded = {id(finding) for rest in rests for finding in rest}
    yield from ((finding, 1) for finding in findings if id(finding) not in folded)
    yield from ((_together(rest), len(rest)) for rest in rests)


def _together(rest: Sequence[Finding]) -> Finding:
    places = list(dict.fromkeys(finding.where for finding in rest))
    where = ", ".join(places[:MOST_NAMED])
    if len(places) > MOST_NAMED:
        where += f" and {len(places) - MOST_NAMED:,} more"
    first = rest[0]
    message = first.message if {finding.message for finding in rest} == {first.message} else ""
    remedy = first.remedy
    if {finding.remedy for finding in rest} != {remedy}:
        remedy = "As above for each of them; --format json tells all."
    return Finding(first.code, first.severity, where, message, {}, remedy)


def describe_counts(counts: Counter[Severity]) -> str:
    """How many there are of each severity: `2 errors, 1 note`, or `no findings`."""
    parts = [
        f"{counts[severity]:,} {severity}{'' if counts[severity] == 1 else 's'}"
        for severity in SEVERITIES
        if counts[severity]
    ]
    return ", ".join(parts) or "no findings"


def _evidence_text(finding: Finding) -> str:
    return " ".join(f"{name}={_evidence_value(value)}" for name, value in finding.evidence.items())


def _evidence_value(value: Evidence) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case str() if not value or any(c.isspace() or c == '"' for c in value):
            return '"' + value.replace('"', '\\"') + '"'
        case _:
            return str(value)


def _wrapped(text: str, width: int | None, hang: int = 0) -> list[str]:
    if width is None:
        return [INDENT + text]
    return textwrap.wrap(
        text,
        max(width, len(INDENT) + 10),
        initial_indent=INDENT,
        subsequent_indent=INDENT + " " * hang,
        break_long_words=False,  # a file's name must survive being copied
        break_on_hyphens=False,
    )


def wrapped(text: str, width: int, hang: int = 0) -> list[str]:
    """One sentence below a finding's first line; `hang`: its further lines stand so far right."""
    return textwrap.wrap(
        one_line(text),
        max(width, len(INDENT) + 20),
        initial_indent=INDENT,
        subsequent_indent=INDENT + " " * hang,
        break_on_hyphens=False,
    )
