"""The audit on a terminal: what one sees first, and the pictures without a browser.

    error    tombstone-divergence  orders-3
             Broker 3 still shows a key that brokers 1 and 2 have deleted.

                          16    17      18   19         20–21
             ✓ broker 1   ·     ·       ·    2e7d=cea3  ⋯2
             ✗ broker 3   ·     k=cea3  ·    2e7d=cea3  ⋯2

             right  brokers 1 and 2 (certain). Broker 2 holds a delete of the key at 18.
             began  between ... and ...
             → let broker 3 copy the partition anew

Everything fits the width it is given; 80 columns are enough for any finding.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.audit.finding import AuditFinding
from sexton.audit.remedies import GUIDE, runbook
from sexton.audit.window import Slot
from sexton.report.audit_page import AuditPage, TopicRead, topics
from sexton.report.audit_picture import Bracket, Cell, Picture, Row, Span, picture_of
from sexton.report.audit_steps import Advice
from sexton.report.audit_words import (
    STANDINGS,
    began,
    key_label,
    key_text,
    many,
    node_name,
    sentence,
    verdict_sentence,
    who_is_right,
)
from sexton.report.findings import INDENT, STYLES, describe_counts, heading_lines, wrapped
from sexton.report.quantities import duration, moment, size
from sexton.report.tables import Cell as TableCell
from sexton.report.tables import Column, number, one_line

if TYPE_CHECKING:
    from rich.text import Text

MOST_COLUMNS = 10
FEWEST_COLUMNS = 3
NO_ROOM = "(A wider terminal shows the replicas' logs here: 80 columns are enough.)"
GAP = 2
KEY_WIDTH = 6  # characters of a key, if that tells them apart

_STANDINGS = {"right": "✓", "wrong": "✗", "unknown": " "}
_ROLES = {"gap": "·", "removed": "×", "before": "before", "past": "past LSO", "unseen": "not read"}
_KEY = (
    ("·", "no record"),
    ("×", "removed by cleaning"),
    ("( )", "hidden from read_committed"),
    ("?", "not decided for read_committed"),
    ("∅", "a delete"),
    ("⋯", "not drawn"),
)
_WITH_KEYS = "key=start of its value's hash"
_DIGITS = {
    True: "k the key in question, other keys and values as the start of their hash",
    False: "keys and values as the start of their hash",
}


# ── the whole ──


def verdict_lines(page: AuditPage) -> Iterator[str]:
    """The verdict, how much it rests on, and what was not looked at."""
    yield one_line(verdict_sentence(page))
    replicas = list(page.replicas)
    read = f"{many(sum(each.records for each in replicas), 'record')}, "
    read += f"{size(sum(each.bytes for each in replicas))} of {many(len(replicas), 'replica')}"
    took = duration(page.finished_ms - page.started_ms)
    yield f"{describe_counts(page.counts)}; read {read} in {took}, at {moment(page.started_ms)}"
    if page.acknowledged:
        yield f"not shown: {many(page.acknowledged, 'finding')} acknowledged in the baseline"
    yield from (f"note: {one_line(limit)}" for limit in page.limits)
    if page.findings:
        yield f"what to do: {GUIDE}"


TOPICS = (
    Column("topic"), Column("verdict"), number("partitions", "parts"), number("replicas"),
    number("records"), number("keys", spare=True), number("bytes", spare=True), number("findings"),
)  # fmt: skip


def topic_rows(page: AuditPage, *, people: bool = True) -> Iterator[tuple[TableCell, ...]]:
    """One row per topic under `TOPICS`, the worst first; for people bytes have units."""
    for topic in topics(page):
        yield _topic_row(topic, people=people)


def _topic_row(topic: TopicRead, *, people: bool) -> tuple[TableCell, ...]:
    replicas = topic.replicas
    amount = sum(each.bytes for each in replicas)
    return (
        topic.topic,
        STANDINGS[topic.standing] if people else topic.standing,
        len(topic.partitions),
        len(replicas),
        sum(each.records for each in replicas),
        sum(max((r.keys for r in each.replicas), default=0) for each in topic.partitions),
        size(amount) if people else amount,
        len(topic.findings),
    )


# ── a finding ──


def audit_finding_lines(
    finding: AuditFinding, page: AuditPage, width: int = 80, advice: Advice | None = None
) -> list[str]:
    """The finding as a paragraph with its picture."""
    lines = heading_lines(finding.severity, finding.code, str(finding.partition), width)
    lines += wrapped(sentence(finding.message), width)
    drawn = picture_lines(finding, page, width - len(INDENT))
    if drawn:
        lines += ["", *(f"{INDENT}{line}".rstrip() for line in drawn), ""]
    elif picture_of(finding, FEWEST_COLUMNS) is not None:
        lines += wrapped(NO_ROOM, width)
    because = sentence(finding.verdict.because)
    lines += wrapped(f"right  {who_is_right(finding, page)}. {because}", width, hang=7)
    if finding.key is not None:
        lines += wrapped(f"key    {key_text(finding.key, page)}", width, hang=7)
    lines += wrapped(f"began  {began(finding)}", width, hang=7)
    lines += wrapped(f"→ {finding.remedy}", width, hang=2)
    if runbook(finding.code) not in finding.remedy:
        lines += wrapped(f"→ {runbook(finding.code)}", width, hang=2)
    command = (advice or Advice(page)).first_command(finding)
    if command is not None:
        lines.append(f"{INDENT}$ {one_line(command)}")  # to be copied: in one piece
    return lines


def audit_finding_text(
    finding: AuditFinding, page: AuditPage, width: int = 80, advice: Advice | None = None
) -> Text:
    """The same lines with colour, for a rich console."""
    from rich.text import Text

    text = Text("\n".join(audit_finding_lines(finding, page, width, advice)))
    text.stylize(STYLES[finding.severity], 0, len(finding.severity))
    text.stylize("bold", len(INDENT), len(INDENT) + len(finding.code))
    text.highlight_regex("✓ [a-z]+ \\d+|COMMIT", "green")
    text.highlight_regex("✗ [a-z]+ \\d+|ABORT", "red")
    return text


# ── its picture ──


def picture_lines(finding: AuditFinding, page: AuditPage, width: int) -> list[str]:
    """The replicas' logs around the finding in at most `width` columns; empty if there are none."""
    for key_width in (_telling_apart(finding, page, width), KEY_WIDTH):
        for most in range(MOST_COLUMNS, FEWEST_COLUMNS - 1, -1):
            picture = picture_of(finding, most)
            if picture is None:
                return []
            lines = _Sketch(picture, finding, page, key_width).lines()
            if max(map(len, lines)) <= width:
                return lines
    return []  # so narrow that it would mislead


def _telling_apart(finding: AuditFinding, page: AuditPage, width: int) -> int:
    """How many characters a key needs, so that two keys do not look like one."""
    keys = {slot.key for window in finding.windows for slot in window.slots}
    for most in range(KEY_WIDTH, width):
        if len({key_label(key, finding, page, most) for key in keys}) == len(keys):
            return most
    return KEY_WIDTH


class _Sketch:
    def __init__(
        self, picture: Picture, finding: AuditFinding, page: AuditPage, key_width: int
    ) -> None:
        self.picture, self.finding, self.page = picture, finding, page
        self.key_width = key_width
        self.texts = [{cell.start: self._cell(cell) for cell in row.cells} for row in picture.rows]
        self.label = 2 + max(len(node_name(row.node, page)) for row in picture.rows) + GAP
        self.before, self.offsets = _offset_labels(picture.spans)
        self.edges = [self.label]
        for at, offset in enumerate(self.offsets):
            widest = max(len(texts.get(at, "")) for texts in self.texts)
            self.edges.append(self.edges[-1] + max(widest, len(offset)) + GAP)

    def lines(self) -> list[str]:
        drawn = [f"  offsets {self.before}…"] if self.before else []
        drawn.append(self._line("", dict(enumerate(self.offsets))))
        same = len({(row.last_stable, row.high_watermark) for row in self.picture.rows}) == 1
        for row, texts in zip(self.picture.rows, self.texts, strict=True):
            name = f"{_STANDINGS[row.standing]} {node_name(row.node, self.page)}"
            drawn.append(self._line(name, texts))
            drawn += self._brackets(row)
            if not same:
                drawn.append(f"  LSO {row.last_stable}, HW {row.high_watermark}")
        if same:
            row = self.picture.rows[0]
            drawn.append(f"  on all: LSO {row.last_stable}, HW {row.high_watermark}")
        told = "".join(text for texts in self.texts for text in texts.values())
        signs = [f"{sign} {what}" for sign, what in _KEY if sign[0] in told]
        if "=" in told:
            every = (text for texts in self.texts for text in texts.values())
            has_k = any(text.lstrip("(").startswith("k=") for text in every)
            signs.append(_WITH_KEYS if self.page.show_keys else _DIGITS[has_k])
        key = ", ".join(signs)
        widest = max(60, *map(len, drawn))
        return [*drawn, *textwrap.wrap(key, widest, initial_indent="  ", subsequent_indent="  ")]

    def _line(self, name: str, texts: dict[int, str]) -> str:
        line = name.ljust(self.label)
        for at, text in texts.items():
            line = line.ljust(self.edges[at]) + text
        return line.rstrip()

    def _cell(self, cell: Cell) -> str:
        match cell.role:
            case "slot":
                assert cell.slot is not None
                return self._slot(cell.slot)
            case "folded":
                return f"⋯{cell.count or ''}"
            case _:
                return _ROLES[cell.role]

    def _slot(self, slot: Slot) -> str:
        match slot.kind:
            case "commit" | "abort":
                return slot.kind.upper()
            case "empty" | "control" | "damaged":
                return slot.kind
            case _:
                key = key_label(slot.key, self.finding, self.page, self.key_width)
                key = key if self.page.show_keys else key[:4]
                value = "∅" if slot.value_digest is None else slot.value_digest[:4]
                text = f"{key}={value}"
                return {True: text, False: f"({text})", None: f"{text}?"}[slot.shown]

    def _brackets(self, row: Row) -> Iterator[str]:
        for lane in range(row.lanes):
            line = ""
            for bracket in row.brackets:
                if bracket.lane == lane:
                    line = line.ljust(self.edges[bracket.first]) + self._bracket(bracket)
            yield line

    def _bracket(self, bracket: Bracket) -> str:
        wide = self.edges[bracket.last + 1] - self.edges[bracket.first] - GAP
        how = {"commit": "committed", "abort": "aborted", "open": "open"}[bracket.ends]
        end = "▶" if bracket.ends == "open" else "╯"
        for label in (f" @{bracket.producer_id} epoch {bracket.epoch}: {how} ", f" {how} ", ""):
            if len(label) + 2 <= wide:
                break
        return f"╰{label.center(max(wide - 2, 0), '─')}{end}"


def _offset_labels(spans: Sequence[Span]) -> tuple[str, list[str]]:
    """Digits that large offsets begin with, told once; and the columns' labels without them."""
    first, last = str(spans[0].first), str(spans[-1].end - 1)
    same = 0
    while len(first) == len(last) and same < len(last) - 2 and first[same] == last[same]:
        same += 1
    if same < 4:
        return "", [span.label for span in spans]
    shortened = ((f"…{str(span.first)[same:]}", f"{str(span.end - 1)[same:]}") for span in spans)
    return first[:same], [one if one[1:] == other else f"{one}–{other}" for one, other in shortened]
