"""Which part of the replicas' logs shows why they disagree, and where does each thing stand in it?

A finding comes with a window of every replica's log. Laid below each other, offset under offset,
they show at a glance what words explain badly: this one has a marker, that one never had it.

              17      18       19–40     41        spans: the columns
    broker 1  ┄┄┄┄┄┄┄ ABORT    ⋯ 20      COMMIT    cells: a slot, a gap, or a folded stretch
    broker 3  k=1     ┄┄┄┄┄┄┄  ⋯ 20      COMMIT
              ╰────────── @7 ────────────╯         brackets: a transaction as this replica takes it

A window may be long, a picture must not be. Offsets are cut into spans at every slot's border; what
has to do with the key or the transactions in question stays, then what is nearest to it, and the
rest is folded. The same layout is drawn as SVG (`audit_svg`) and as text (`audit_text`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from sexton.audit.finding import AuditFinding
from sexton.audit.window import LogWindow, Slot
from sexton.base.lazy_dataclass import dataclass

Role = Literal[
    "slot",  # what the replica holds here
    "gap",  # it holds nothing here
    "removed",  # nothing, but the batch around it is still there: cleaning took it away
    "folded",  # something is held that is not drawn
    "before",  # before the log begins
    "past",  # past the last stable offset: nobody can read it
    "unseen",  # not looked at
]
Standing = Literal["right", "wrong", "unknown"]

MOST_LANES = 3  # transactions that overlap; more would be a knot


@dataclass(frozen=True, slots=True)
class Span:
    """A column: the offsets [first, end)."""

    first: int
    end: int
    folded: bool

    @property
    def label(self) -> str:
        """`17`, `18–40`, `1900000018–…40`: large numbers are not said twice."""
        first, last = str(self.first), str(self.end - 1)
        if first == last:
            return first
        same = 0
        while len(first) == len(last) and same < len(last) - 2 and first[same] == last[same]:
            same += 1
        return f"{first}–…{last[same:]}" if same > 2 else f"{first}–{last}"


@dataclass(frozen=True, slots=True)
class Cell:
    """What a replica has in the columns [start, end)."""

    start: int
    end: int
    role: Role
    slot: Slot | None = None
    marked: bool = False  # it is the key, or of the transaction, in question
    count: int = 0  # folded: so many slots are in it


@dataclass(frozen=True, slots=True)
class Bracket:
    """A transaction as one replica takes it, from its first data to the marker that it met."""

    producer_id: int
    epoch: int
    first: int  # column of its first data
    last: int  # column of its marker, or the last one
    ends: Literal["commit", "abort", "open"]
    lane: int


@dataclass(frozen=True, slots=True)
class Row:
    """One replica."""

    node: int
    standing: Standing
    log_start: int
    last_stable: int
    high_watermark: int
    cells: tuple[Cell, ...]
    brackets: tuple[Bracket, ...]
    stable_at: int | None  # before this column the last stable offset is; None: outside
    high_at: int | None

    @property
    def lanes(self) -> int:
        return 1 + max((each.lane for each in self.brackets), default=-1)


@dataclass(frozen=True, slots=True)
class Picture:
    spans: tuple[Span, ...]
    rows: tuple[Row, ...]
    producers: tuple[int, ...]  # whose transactions have brackets, in the order of their colours


def picture_of(finding: AuditFinding, most: int) -> Picture | None:
    """The finding's windows in at most `most` columns; None if it has none."""
    by_node = sorted(finding.windows, key=lambda each: each.node)
    windows = [each for each in by_node if each.first < each.end]
    if not windows:
        return None
    spans = _folded(_cut(windows), _Interest(finding, windows), most)
    producers = _producers(finding, windows)
    rows = tuple(_row(window, spans, finding, producers) for window in windows)
    drawn = {bracket.producer_id for row in rows for bracket in row.brackets}
    return Picture(spans, rows, tuple(each for each in producers if each in drawn))


# ── columns ──


def _cut(windows: Sequence[LogWindow]) -> list[Span]:
    """Every stretch in which no replica changes from one thing to another."""
    first, end = min(each.first for each in windows), max(each.end for each in windows)
    borders = {first, end}
    for window in windows:
        borders |= {window.first, window.end, window.log_start, window.last_stable}
        borders |= {window.high_watermark}
        for slot in window.slots:
            borders |= {slot.offset, slot.last_offset + 1}
        for start, stop in window.gaps:
            borders |= {start, stop}
    inside = sorted(each for each in borders if first <= each <= end)
    return [Span(a, b, folded=False) for a, b in pairwise(inside)]


class _Interest:
    """How much a column has to do with the finding: the smaller, the more."""

    def __init__(self, finding: AuditFinding, windows: Sequence[LogWindow]) -> None:
        offsets = {offset for offset in finding.offsets.values() if offset is not None}
        for each in finding.transactions:
            offsets |= {at for at in (each.first_data, each.marker_offset) if at is not None}
        slots = [slot for window in windows for slot in window.slots]
        if finding.key is not None:
            offsets |= {slot.offset for slot in slots if slot.key == finding.key}
        named = {each.producer_id for each in finding.transactions}
        markers = {slot.offset for slot in slots if slot.control and slot.producer_id in named}
        self.heart = sorted(offsets) or sorted(start for each in windows for start, _ in each.gaps)
        self.markers = markers
        # A last stable offset that lies behind the others' is the whole point of some findings.
        self.bounds = {each.last_stable for each in windows}

    def __call__(self, span: Span) -> tuple[int, int]:
        at = bisect_right(self.heart, span.end - 1)
        if at and self.heart[at - 1] >= span.first:
            return (0, 0)
        if span.first in self.markers:
            return (1, 0)
        near = [abs(each - span.first) for each in self.heart[max(at - 1, 0) : at + 1]]
        return (2 if span.first in self.bounds else 3, min(near, default=span.first))


def _folded(cut: list[Span], interest: _Interest, most: int) -> tuple[Span, ...]:
    ranked = sorted(range(len(cut)), key=lambda at: interest(cut[at]))
    for keep in range(min(most, len(cut)), 0, -1):
        spans = _with_folds(cut, set(ranked[:keep]))
        if len(spans) <= most:
            return spans
    return _with_folds(cut, set(ranked[:1]))


def _with_folds(cut: list[Span], kept: set[int]) -> tuple[Span, ...]:
    """The spans that are kept, and one folded span for each run of others."""
    spans: list[Span] = []
    for at, span in enumerate(cut):
        if at in kept:
            spans.append(span)
        elif spans and spans[-1].folded:
            spans[-1] = Span(spans[-1].first, span.end, folded=True)
        else:
            spans.append(Span(span.first, span.end, folded=True))
    return tuple(spans)


# ── rows ──


def _row(
    window: LogWindow, spans: tuple[Span, ...], finding: AuditFinding, producers: Sequence[int]
) -> Row:
    return Row(
        window.node,
        standing_of(window.node, finding),
        window.log_start,
        window.last_stable,
        window.high_watermark,
        tuple(_joined(_cells(window, spans, finding))),
        tuple(_brackets(_transactions(window, finding, producers), spans)),
        _border(spans, window.last_stable),
        _border(spans, window.high_watermark),
    )


def standing_of(node: int, finding: AuditFinding) -> Standing:
    """Whether this replica is right about it, as far as that is known."""
    right = finding.verdict.right
    if right is not None and node in right:
        return "right"
    return "wrong" if right is not None and node in finding.replicas else "unknown"


def _border(spans: tuple[Span, ...], offset: int) -> int | None:
    """Before which column the offset lies; after the last one is `len(spans)`."""
    if not spans[0].first <= offset <= spans[-1].end:
        return None
    return sum(1 for span in spans if span.end <= offset)


def _cells(window: LogWindow, spans: tuple[Span, ...], finding: AuditFinding) -> Iterator[Cell]:
    starts = [slot.offset for slot in window.slots]
    for at, span in enumerate(spans):
        low = bisect_right(starts, span.first) - 1
        covers = low >= 0 and window.slots[low].last_offset >= span.first
        low = low if covers else low + 1
        held = window.slots[low : bisect_right(starts, span.end - 1)]
        if span.folded:
            yield Cell(at, at + 1, _folded_role(window, span, held), count=len(held))
        elif held:
            marked = _is_marked(held[0], finding)
            yield Cell(at, at + 1, "slot", held[0], marked=marked)
        else:
            yield Cell(at, at + 1, _empty_role(window, span))


def _folded_role(window: LogWindow, span: Span, held: Sequence[Slot]) -> Role:
    return "folded" if held else _empty_role(window, span)


def _empty_role(window: LogWindow, span: Span) -> Role:
    if span.end <= window.log_start:
        return "before"
    if not any(start <= span.first and span.end <= stop for start, stop in window.gaps):
        if span.first >= window.last_stable:
            return "past"
        if span.first < window.first or span.end > window.end:
            return "unseen"
        return "folded"  # the window was thinned here
    around = (slot for slot in window.slots if slot.base_offset <= span.first)
    if any(slot.batch_last >= span.end - 1 for slot in around):
        return "removed"
    return "gap"


def _is_marked(slot: Slot, finding: AuditFinding) -> bool:
    if finding.key is not None:
        return slot.key == finding.key and not slot.control
    if finding.transactions:
        return any(slot.producer_id == each.producer_id for each in finding.transactions)
    return slot.offset in finding.offsets.values()


def _joined(cells: Iterator[Cell]) -> Iterator[Cell]:
    """One cell for columns that tell the same: an emptied batch, a stretch without anything."""
    last: Cell | None = None
    for cell in cells:
        if last is not None and last.role == cell.role and _same(last, cell):
            last = Cell(last.start, cell.end, last.role, last.slot, last.marked, last.count)
            continue
        if last is not None:
            yield last
        last = cell
    if last is not None:
        yield last


def _same(one: Cell, other: Cell) -> bool:
    if one.role == "slot":
        return one.slot is other.slot
    return one.role in ("before", "past", "unseen")


# ── transactions ──


def _producers(finding: AuditFinding, windows: Sequence[LogWindow]) -> list[int]:
    """Whose transactions are drawn: those of the finding, and the one that wrote the key."""
    named = [each.producer_id for each in finding.transactions]
    if finding.key is not None:
        slots = (slot for window in windows for slot in window.slots)
        named += [each.producer_id for each in slots if each.key == finding.key]
    return list(dict.fromkeys(each for each in named if each >= 0))


@dataclass(frozen=True, slots=True)
class _Transaction:
    producer_id: int
    epoch: int
    first: int
    marker: Slot | None


def _transactions(
    window: LogWindow, finding: AuditFinding, producers: Sequence[int]
) -> list[_Transaction]:
    """The transactions of these producers, each closed by the marker that this replica met."""
    found: list[_Transaction] = []
    under_way: dict[int, Slot] = {}
    for slot in window.slots:
        if slot.producer_id not in producers:
            continue
        if slot.kind in ("commit", "abort"):
            begun = under_way.pop(slot.producer_id, None)
            if begun is not None:
                found.append(_Transaction(slot.producer_id, begun.epoch, begun.offset, slot))
        elif slot.transactional and not slot.control:
            under_way.setdefault(slot.producer_id, slot)
    found += [_Transaction(at, each.epoch, each.offset, None) for at, each in under_way.items()]
    # One that is open lies past the last stable offset, where nobody can read it.
    for each in finding.transactions:
        known = {(one.producer_id, one.marker is None) for one in found}
        if each.node != window.node or each.outcome != "open" or each.first_data is None:
            continue
        if (each.producer_id, True) not in known and window.first <= each.first_data < window.end:
            found.append(_Transaction(each.producer_id, each.epoch or 0, each.first_data, None))
    return sorted(found, key=lambda each: each.first)


def _brackets(found: list[_Transaction], spans: tuple[Span, ...]) -> Iterator[Bracket]:
    columns = [span.first for span in spans]
    free = [0] * MOST_LANES  # by lane: the first column that is free
    for each in found:
        start = bisect_right(columns, each.first) - 1
        last = len(spans) - 1
        ends: Literal["commit", "abort", "open"] = "open"
        if each.marker is not None:
            last = bisect_right(columns, each.marker.offset) - 1
            ends = "commit" if each.marker.kind == "commit" else "abort"
        lane = next((lane for lane in range(MOST_LANES) if free[lane] <= start), None)
        if lane is not None and start >= 0:
            free[lane] = last + 1
            yield Bracket(each.producer_id, each.epoch, start, last, ends, lane)
