"""A picture of the replicas' logs as SVG, for eyes, for paper and for a screen reader.

Nothing is told by colour alone: a marker has its word, a hidden record is struck through, a gap is
dashed, and a wrong replica says so. All colours come from the page's style sheet, so the picture
follows light and dark. What is drawn is also told in words, in `<desc>`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sexton.audit.finding import AuditFinding
from sexton.audit.window import Slot
from sexton.report.audit_page import AuditPage
from sexton.report.audit_picture import Bracket, Cell, Picture, Row, Span
from sexton.report.audit_words import (
    escaped,
    key_label,
    key_text,
    node_name,
    value_label,
)
from sexton.report.quantities import moment

LABEL = 118  # width of what stands left of a row
TOP = 24  # the offsets above all rows
MARKS = 15  # room above a row for LSO and HW
BOX = 38
LANE = 23
GAP = 12  # between rows
LETTER = 7  # width of one, about
COLOURS = 4  # of transactions; a fifth begins again

_STANDINGS = {"right": "✓ right", "wrong": "✗ wrong", "unknown": ""}
_ROLES = {
    "gap": "nothing",
    "removed": "nothing; its batch is still there, so cleaning removed it",
    "folded": "not drawn",
    "before": "before the log begins",
    "past": "past the last stable offset",
    "unseen": "not looked at",
}
_SAID = {  # the longest that fits
    "before": ("before the log begins", "before"),
    "past": ("past its last stable offset: read_committed gets nothing here", "past LSO"),
    "unseen": ("not looked at", "not read"),
}


def svg(picture: Picture, finding: AuditFinding, page: AuditPage, name: str) -> str:
    """The picture; `name` is unique on the page."""
    return "".join(_Drawing(picture, finding, page).parts(name))


class _Drawing:
    def __init__(self, picture: Picture, finding: AuditFinding, page: AuditPage) -> None:
        self.picture = picture
        self.finding = finding
        self.page = page
        self.edges = [LABEL]
        for at, span in enumerate(picture.spans):
            self.edges.append(self.edges[-1] + _width(at, span, picture))
        self.colours = {each: at % COLOURS for at, each in enumerate(picture.producers)}

    def parts(self, name: str) -> Iterator[str]:
        bodies, top = [], TOP
        for row in self.picture.rows:
            bodies.append("".join(self._row(row, top)))
            top += MARKS + BOX + row.lanes * LANE + GAP
        width, height = self.edges[-1] + 10, top
        yield (
            f'<svg class="log" role="img" aria-labelledby="{name}-t {name}-d"'
            f' viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
            f'<title id="{name}-t">The logs of the replicas of'
            f" {escaped(str(self.finding.partition))} around this finding</title>"
            f'<desc id="{name}-d">{escaped(self._in_words())}</desc>'
        )
        for at, span in enumerate(self.picture.spans):
            middle = (self.edges[at] + self.edges[at + 1]) / 2
            faint = " faint" if span.folded else ""
            yield _text(middle, 14, _fitting(span.label, self._wide(at)), f"offset{faint}")
        yield from bodies
        yield "</svg>"

    def _wide(self, at: int, end: int | None = None) -> int:
        return self.edges[at + 1 if end is None else end] - self.edges[at]

    # ── one replica ──

    def _row(self, row: Row, top: int) -> Iterator[str]:
        box = top + MARKS
        yield f'<g class="row {row.standing}">'
        yield f'<text class="who" x="0" y="{box + 14}">{node_name(row.node, self.page)}</text>'
        if _STANDINGS[row.standing]:
            yield f'<text class="stand" x="0" y="{box + 30}">{_STANDINGS[row.standing]}</text>'
        for cell in row.cells:
            yield from self._cell(cell, box)
        for bracket in row.brackets:
            yield self._bracket(bracket, box + BOX + 3 + bracket.lane * LANE)
        yield from self._marks(row, top, box)
        yield "</g>"

    def _cell(self, cell: Cell, top: int) -> Iterator[str]:
        left, right = self.edges[cell.start] + 3, self.edges[cell.end] - 3
        middle, wide = (left + right) / 2, right - left
        match cell.role:
            case "slot":
                assert cell.slot is not None
                yield self._slot(cell.slot, left, top, wide, marked=cell.marked)
            case "gap":
                yield f'<path class="gap" d="M{left} {top + BOX / 2}H{right}"/>'
            case "removed":
                yield _box(left, top, wide, "removed")
                yield _text(middle, top + 23, _fitting("removed", wide), "small")
            case "folded":
                yield _text(middle, top + 23, f"⋯ {cell.count}" if cell.count else "⋯", "faint")
            case "before" | "past" | "unseen":
                yield _box(left, top, wide, cell.role)
                told = next((each for each in _SAID[cell.role] if len(each) * 6 <= wide), "")
                yield _text(middle, top + 23, told, "small")

    def _slot(self, slot: Slot, left: int, top: int, wide: int, *, marked: bool) -> str:
        middle = left + wide / 2
        classes = [slot.kind, *(["marked"] if marked else [])]
        if slot.kind in ("value", "tombstone") and slot.shown is not True:
            classes.append("hidden" if slot.shown is False else "open")
        lines = self._lines(slot)
        body = _box(left, top, wide, "")
        if len(lines) == 1:
            body += _text(middle, top + 23, _fitting(lines[0], wide), "key")
        else:
            body += _text(middle, top + 16, _fitting(lines[0], wide), "key")
            body += _text(middle, top + 31, _fitting(lines[1], wide), "value-text")
        if "hidden" in classes:
            path = f"M{left + 4} {top + BOX - 5}L{left + wide - 4} {top + 5}"
            body += f'<path class="strike" d="{path}"/>'
        told = escaped(self._slot_in_words(slot))
        return f'<g class="slot {" ".join(classes)}">{body}<title>{told}</title></g>'

    def _lines(self, slot: Slot) -> list[str]:
        match slot.kind:
            case "commit" | "abort":
                return [slot.kind.upper(), f"@{slot.producer_id}"]
            case "empty":
                return ["empty", f"@{slot.producer_id}"] if slot.producer_id >= 0 else ["empty"]
            case "control" | "damaged":
                return [slot.kind]
            case _:
                key = key_label(slot.key, self.finding, self.page, most=9)
                return [key, value_label(slot.value_digest if slot.kind == "value" else None)]

    def _bracket(self, bracket: Bracket, top: int) -> str:
        left = self.edges[bracket.first] + 6
        right = self.edges[bracket.last + 1] - 6
        colour = self.colours[bracket.producer_id]
        if bracket.ends == "open":
            path = f"M{left} {top}v6H{right}"
            end = f'<path class="arrow" d="M{right} {top + 2}l6 4l-6 4z"/>'
        else:
            path, end = f"M{left} {top}v6H{right}v-6", ""
        how = {"commit": "committed", "abort": "aborted", "open": "open"}[bracket.ends]
        label = f"@{bracket.producer_id} epoch {bracket.epoch}: {how}"
        if len(label) * 6 > right - left:
            label = f"@{bracket.producer_id} {how}"
        text = _text((left + right) / 2, top + 17, label, "txn")
        opened = " open" if bracket.ends == "open" else ""
        return f'<g class="txn-{colour}{opened}"><path class="bracket" d="{path}"/>{end}{text}</g>'

    def _marks(self, row: Row, top: int, box: int) -> Iterator[str]:
        marks: dict[int, list[str]] = {}
        for name, at in (("LSO", row.stable_at), ("HW", row.high_at)):
            if at is not None:
                marks.setdefault(at, []).append(name)
        for at, names in marks.items():
            x = self.edges[at]
            label = " ".join(names)
            yield f'<path class="mark" d="M{x} {top + 12}V{box + BOX}"/>'
            anchor = "end" if x + len(label) * 3 > self.edges[-1] else "middle"
            place = f'x="{x}" y="{top + 9}" text-anchor="{anchor}"'
            yield f'<text class="mark-name" {place}>{label}</text>'

    # ── the same in words ──

    def _in_words(self) -> str:
        return " ".join(self._row_in_words(row) for row in self.picture.rows)

    def _row_in_words(self, row: Row) -> str:
        spans = self.picture.spans
        told = []
        for cell in row.cells:
            where = Span(spans[cell.start].first, spans[cell.end - 1].end, folded=False).label
            what = _ROLES.get(cell.role) or self._lines_in_words(cell.slot)
            told.append(f"{where} {what}")
        standing = f" ({row.standing})" if row.standing != "unknown" else ""
        return f"{node_name(row.node, self.page)}{standing}: {'; '.join(told)}."

    def _lines_in_words(self, slot: Slot | None) -> str:
        return " ".join(self._lines(slot)) if slot is not None else ""

    def _slot_in_words(self, slot: Slot) -> str:
        where = Span(slot.offset, slot.last_offset + 1, folded=False).label
        told = [f"offset {where}", slot.kind]
        if slot.key is not None and not slot.control:
            told.append(f"key {key_text(slot.key, self.page)}")
        if slot.value_digest is not None:
            told.append(f"value {slot.value_digest}")
        if slot.producer_id >= 0:
            told.append(f"producer {slot.producer_id} epoch {slot.epoch}")
        if slot.timestamp >= 0:
            told.append(moment(slot.timestamp))
        if slot.kind in ("value", "tombstone"):
            seen = {True: "shown to readers", False: "hidden from readers", None: "not decided"}
            told.append(seen[slot.shown])
        return ", ".join(told)


def _width(at: int, span: Span, picture: Picture) -> int:
    """Of a column: what stands in it, and its label, must fit."""
    cells = [cell for row in picture.rows for cell in row.cells if cell.start <= at < cell.end]
    widest = 84 if any(cell.role == "slot" for cell in cells) else 60
    return max(widest, min(len(span.label), 22) * LETTER + 10)


def _box(left: float, top: float, wide: float, classes: str) -> str:
    name = f' class="{classes}"' if classes else ""
    return f'<rect{name} x="{left}" y="{top}" width="{wide}" height="{BOX}" rx="5"/>'


def _text(x: float, y: float, text: str, classes: str) -> str:
    return (
        f'<text class="{classes}" x="{x:g}" y="{y:g}" text-anchor="middle">{escaped(text)}</text>'
    )


def _fitting(text: str, wide: float) -> str:
    most = max(int(wide // LETTER), 2)
    return text if len(text) <= most else text[: most - 1] + "…"
