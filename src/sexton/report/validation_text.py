"""A validation on a terminal.

error    state-regression  counts-17 offset 4
         A value went back (read_committed). Partition: 17, Key: key_17, LastValue: 110,
         NewValue: 105

         offset 3   110   2026-11-16 09:12:44 UTC   producer 4, epoch 0
         offset 4   105   2026-11-16 09:12:51 UTC   producer 4, epoch 1   ← another epoch

         → what to do
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.audit.validation import Sighting
from sexton.report.audit_words import many, sentence
from sexton.report.findings import INDENT, STYLES, heading_lines, wrapped
from sexton.report.quantities import duration, moment, size
from sexton.report.tables import Cell, Column, number, one_line
from sexton.report.validation_page import (
    ValidationPage,
    finding_of,
    promises,
    verdict_sentence,
)

if TYPE_CHECKING:
    from rich.text import Text

PROMISES = (Column("promise"), Column("of"), Column("kept"), number("findings"))
PARTITIONS = (
    Column("topic"), number("partition"), number("start"), number("end"), number("records"),
    number("keys"), number("ids"), number("aborted_records"), number("without_key"),
    number("unreadable"), number("findings"),
)  # fmt: skip


def promise_rows(page: ValidationPage) -> Iterator[tuple[Cell, ...]]:
    for each in promises(page):
        yield each.what, each.expression, each.kept, each.findings


def partition_rows(page: ValidationPage) -> Iterator[tuple[Cell, ...]]:
    for each in page.partitions:
        yield (
            each.partition.topic, each.partition.partition, each.start, each.end, each.records,
            each.keys, each.ids, each.hidden, each.without_key, each.unreadable,
            sum(each.counts.values()),
        )  # fmt: skip


def verdict_lines(page: ValidationPage) -> Iterator[str]:
    """The verdict, how much it rests on, and what was not looked at."""
    yield one_line(verdict_sentence(page))
    read = f"{many(page.records, 'record')}, {size(sum(each.bytes for each in page.partitions))}"
    took = duration(page.finished_ms - page.started_ms)
    parts = many(len(page.partitions), "partition")
    yield f"read {read} of {parts} in {took}, at {moment(page.started_ms)}"
    if page.acknowledged:
        yield f"not shown: {many(page.acknowledged, 'finding')} acknowledged in the baseline"
    yield from (f"note: {one_line(limit)}" for limit in page.limits)


def sighting_lines(sighting: Sighting, page: ValidationPage, width: int = 80) -> list[str]:
    finding = finding_of(sighting, page)
    lines = heading_lines(finding.severity, finding.code, finding.where, width)
    said, dot, who = finding.message.partition(". Partition: ")
    lines += wrapped(sentence(said), width)
    if dot:  # on a line of its own, to be found and copied
        lines += wrapped(f"Partition: {who}", width, hang=2)
    records = record_rows(sighting)
    if records:
        lines += ["", *_record_lines(records, width), ""]
    lines += wrapped(f"→ {finding.remedy}", width, hang=2)
    return lines


def _record_lines(records: list[tuple[str, ...]], width: int) -> Iterator[str]:
    """Below each other; what catches the eye comes below a record that leaves no room for it."""
    widths = [max(map(len, column)) for column in zip(*records, strict=True)]
    for row in records:
        cells = [text.ljust(room) for text, room in zip(row, widths, strict=True) if room]
        line = f"{INDENT}{'   '.join(cells)}".rstrip()
        if row[-1] and len(line) > width:
            yield f"{INDENT}{'   '.join(cells[:-1])}".rstrip()
            yield f"{INDENT}{' ' * (widths[0] + 3)}{row[-1]}"
        else:
            yield line


def record_rows(sighting: Sighting) -> list[tuple[str, ...]]:
    """Both records: where, what, when, by whom."""
    rows = []
    several = sighting.last_partition != sighting.partition.partition
    if sighting.last_offset >= 0:
        rows.append(
            _record(
                sighting.last_partition if several else None,
                sighting.last_offset,
                sighting.last_value,
                sighting.last_timestamp_ms,
                (sighting.last_producer_id, sighting.last_producer_epoch),
                "",
            )
        )
    if sighting.offset >= 0:
        rows.append(
            _record(
                sighting.partition.partition if several else None,
                sighting.offset,
                sighting.value,
                sighting.timestamp_ms,
                (sighting.producer_id, sighting.producer_epoch),
                _aside(sighting),
            )
        )
    return rows


def _record(
    partition: int | None, offset: int, value: str, time_ms: int, by: tuple[int, int], aside: str
) -> tuple[str, ...]:
    place = f"offset {offset}" if partition is None else f"partition {partition} offset {offset}"
    when = moment(time_ms) if time_ms >= 0 else ""
    who = f"producer {by[0]}, epoch {by[1]}" if by[0] >= 0 else ""
    return place, value, when, who, aside


def _aside(sighting: Sighting) -> str:
    """What somebody who looks for the cause wants to see at once."""
    if min(sighting.producer_id, sighting.last_producer_id) < 0:
        return ""
    if sighting.producer_id != sighting.last_producer_id:
        return "← another producer"
    if sighting.producer_epoch != sighting.last_producer_epoch:
        return "← another epoch of it"
    return ""


def sighting_text(sighting: Sighting, page: ValidationPage, width: int = 80) -> Text:
    """The same lines with colour, for a rich console."""
    from rich.text import Text

    lines = sighting_lines(sighting, page, width)
    text = Text("\n".join(lines))
    severity = finding_of(sighting, page).severity
    text.stylize(STYLES[severity], 0, len(severity))
    text.stylize("bold", len(INDENT), len(INDENT) + len(sighting.code))
    text.highlight_regex("← .*", "yellow")
    return text
