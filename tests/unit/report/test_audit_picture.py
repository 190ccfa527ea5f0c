"""The picture shows what the windows hold, and what matters is never folded away."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sexton.audit.finding import AuditFinding
from sexton.audit.window import LogWindow
from sexton.report.audit_picture import Picture, Row, Span, picture_of
from tests.unit.report.audit_examples import (
    ABORTED,
    COMMITTED,
    GAP,
    MISMATCH,
    STUCK,
    TOMBSTONE,
    window,
)


def drawn(finding: AuditFinding, most: int = 20) -> Picture:
    picture = picture_of(finding, most)
    assert picture is not None
    return picture


def roles(row: Row) -> list[str]:
    return [cell.slot.kind if cell.slot else cell.role for cell in row.cells]


def test_each_replica_is_a_row_and_each_offset_a_column() -> None:
    picture = drawn(TOMBSTONE)
    assert [span.label for span in picture.spans] == [str(at) for at in range(14, 22)]
    value, gap = "value", "gap"
    assert [roles(row) for row in picture.rows] == [
        [value, value, gap, gap, gap, value, value, value],
        [value, value, value, gap, "tombstone", value, value, value],
        [value, value, value, value, gap, value, value, value],
    ]
    assert [row.standing for row in picture.rows] == ["right", "right", "wrong"]
    marked = [[c.slot.offset for c in row.cells if c.marked and c.slot] for row in picture.rows]
    assert marked == [[], [18], [17]]


def test_a_transaction_ends_where_the_replica_takes_it_to_end() -> None:
    picture = drawn(ABORTED)
    columns = [span.first for span in picture.spans]
    found = [
        [(each.epoch, columns[each.first], columns[each.last], each.ends) for each in row.brackets]
        for row in picture.rows
    ]
    assert found == [
        [(5, 46, 47, "commit")],
        [(4, 40, 43, "abort"), (5, 46, 47, "commit")],
        [(4, 40, 47, "commit")],  # the marker at 43 is missing here
    ]
    assert columns[3:5] == [41, 43]  # nobody holds 41 or 42: one column
    assert picture.producers == (7001,)


def test_what_nobody_can_read_is_said_to_be_past_the_last_stable_offset() -> None:
    stuck = drawn(STUCK).rows[2]
    assert roles(stuck) == ["value", "past"]
    assert [(b.ends, b.producer_id) for b in stuck.brackets] == [("open", 7003)]
    assert stuck.stable_at == 1
    assert stuck.high_at == len(drawn(STUCK).spans)
    assert drawn(STUCK).rows[0].stable_at == stuck.high_at


def test_what_is_seen_past_the_last_stable_offset_is_drawn_undecided() -> None:
    whole = window(3, "100 a=1, 101 @7003e2 b=1, 105 c=1, 106 d=1", first=100, end=108)
    slots = tuple(replace(each, shown=None if each.offset > 100 else True) for each in whole.slots)
    looked = replace(whole, last_stable=101, slots=slots)
    picture = drawn(replace(STUCK, windows=(looked, *STUCK.windows[:2])))
    assert [row.node for row in picture.rows] == [
        1,
        2,
        3,
    ]  # in their order, whatever was read first
    assert roles(picture.rows[2]) == [
        "value", "value", "gap", "gap", "value", "value", "gap",
    ]  # fmt: skip
    assert [(b.first, b.ends) for b in picture.rows[2].brackets] == [(1, "open")]


def test_an_emptied_batch_is_one_cell() -> None:
    [row] = drawn(MISMATCH).rows
    assert roles(row) == ["value", "gap", "empty", "commit", "gap"]


def test_a_gap_inside_a_batch_was_made_by_cleaning() -> None:
    first, second, third = TOMBSTONE.windows
    slots = tuple(
        replace(slot, base_offset=15, batch_last=18) if slot.offset == 15 else slot
        for slot in first.slots
    )
    picture = drawn(replace(TOMBSTONE, windows=(replace(first, slots=slots), second, third)))
    assert roles(picture.rows[0])[2:5] == ["removed"] * 3
    assert roles(picture.rows[2])[4] == "gap"


def test_a_thinned_stretch_is_no_gap() -> None:
    thin = LogWindow(1, 14, 22, 0, 22, 22, (), ((17, 18),), 7)
    picture = drawn(replace(TOMBSTONE, windows=(thin, *TOMBSTONE.windows[1:])))
    assert roles(picture.rows[0]) == ["folded", "folded", "folded", "gap"] + ["folded"] * 4


def test_what_lies_before_the_log_or_was_not_looked_at_is_no_gap() -> None:
    late = replace(window(1, "20 d=5, 21 e=1", first=18, end=22), log_start=16)
    picture = drawn(replace(TOMBSTONE, windows=(late, *TOMBSTONE.windows[1:])))
    assert roles(picture.rows[0]) == ["before", "unseen", "gap", "gap", "value", "value"]


def test_what_matters_stays_when_the_rest_is_folded() -> None:
    long = ", ".join(f"{at} x{at}=1" for at in range(1_000) if at not in (400, 700))
    finding = replace(
        TOMBSTONE,
        offsets={1: 700, 3: 400},
        windows=(
            window(1, f"{long}, 700 -k", end=1_000),
            window(3, f"{long}, 400 k=1", end=1_000),
        ),
    )
    picture = drawn(finding, most=7)
    assert len(picture.spans) <= 7
    shown = {span.first for span in picture.spans if not span.folded}
    assert {400, 700} <= shown
    counts = [cell.count for cell in picture.rows[0].cells if cell.role == "folded"]
    kept = sum(1 for cell in picture.rows[0].cells if cell.role == "slot")
    assert sum(counts) + kept == 999  # nothing is left out of the count


def test_without_windows_there_is_no_picture() -> None:
    assert picture_of(GAP, 10) is None


def test_large_offsets_are_not_said_twice() -> None:
    assert Span(18, 41, folded=True).label == "18–40"
    assert Span(17, 18, folded=False).label == "17"
    assert Span(1_900_000_018, 1_900_000_041, folded=True).label == "1900000018–…40"
    assert Span(998, 1_002, folded=True).label == "998–1001"
    assert Span(100_000, 200_000, folded=True).label == "100000–199999"


@given(st.lists(st.sets(st.integers(0, 60)), min_size=1, max_size=3), st.integers(2, 12))
def test_columns_cover_everything_once_and_keep_to_their_number(
    held: list[set[int]], most: int
) -> None:
    windows = tuple(
        window(node, ", ".join(f"{at} x{at}=1" for at in sorted(has)) or "0 gone", end=61)
        for node, has in enumerate(held, 1)
    )
    picture = drawn(replace(COMMITTED, windows=windows, offsets={1: 30}), most)
    assert len(picture.spans) <= max(most, 3)  # one that matters and what is beside it
    assert picture.spans[0].first == 0
    assert picture.spans[-1].end == 61
    assert all(a.end == b.first for a, b in zip(picture.spans, picture.spans[1:], strict=False))
    for row, has in zip(picture.rows, held, strict=True):
        assert [cell.start for cell in row.cells[1:]] == [cell.end for cell in row.cells[:-1]]
        shown = sum(
            cell.count if cell.role == "folded" else cell.slot is not None for cell in row.cells
        )
        assert shown == len(has)
