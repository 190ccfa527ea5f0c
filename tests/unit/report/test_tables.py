from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pytest
from rich.console import Console

from sexton.report.tables import (
    CHUNK_ROWS,
    Cell,
    Column,
    number,
    plain_lines,
    print_rich,
    tsv_line,
)

COLUMNS = (number("offset"), Column("key"), Column("delete_horizon"))
ROWS: list[list[Cell]] = [[0, "a", None], [12345, "a rather long key, in fact", True]]


def on_terminal(width: int, rows: list[list[Cell]], columns: Sequence[Column] = COLUMNS) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_rich(console, columns, rows)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_piped_rows_are_padded_and_never_folded() -> None:
    assert list(plain_lines(COLUMNS, ROWS)) == [
        "offset  key                         delete horizon",
        "     0  a                           -",
        " 12345  a rather long key, in fact  yes",
    ]


def test_a_table_without_rows_still_has_headings() -> None:
    assert list(plain_lines(COLUMNS, [])) == ["offset  key  delete horizon"]
    assert on_terminal(80, []) == "offset  key  delete horizon"


def test_a_terminal_shows_what_a_pipe_gets_while_it_fits() -> None:
    assert on_terminal(80, ROWS) == "\n".join(plain_lines(COLUMNS, ROWS))


def test_a_narrower_terminal_folds_headings_first() -> None:
    assert on_terminal(45, ROWS) == (
        "                                    delete\n"
        "offset  key                         horizon\n"
        "     0  a                           -\n"
        " 12345  a rather long key, in fact  yes"
    )


def test_a_still_narrower_one_folds_text_but_no_number() -> None:
    assert on_terminal(33, ROWS) == (
        "                          delete\n"
        "offset  key               horizon\n"
        "     0  a                 -\n"
        " 12345  a rather long     yes\n"
        "        key, in fact"
    )


def test_prose_is_folded_and_names_codes_and_times_stay_whole() -> None:
    names = ("__transaction_state", "tombstone-divergence", "2026-11-17T06:01:47Z")
    columns = [Column("topic"), Column("code"), Column("since"), Column("because")]
    rows: list[list[Cell]] = [[*names, "a tombstone was forgotten by some"]]
    table = on_terminal(80, rows, columns)
    assert max(map(len, table.splitlines())) <= 80
    assert all(name in table.splitlines()[1] for name in names)
    too_narrow = on_terminal(60, rows, columns)
    assert too_narrow.startswith("topic:   __transaction_state\ncode:    tombstone-divergence\n")


def test_a_word_that_is_longer_than_any_name_is_folded() -> None:
    table = on_terminal(50, [["x" * 60, 7]], [Column("key"), number("n")])
    assert "".join(table.split()) == "keyn" + "x" * 47 + "7" + "x" * 13


def test_text_that_does_not_fit_on_its_line_goes_on_below_itself() -> None:
    columns = (Column("id"), Column("key"), Column("sent_as"), Column("reason"))
    told: list[Cell] = ["orders-3-17", "customer-17", None, "the address has no street, nor a town"]
    assert on_terminal(33, [told, told], columns) == (
        "id:      orders-3-17\n"
        "key:     customer-17\n"
        "sent as: -\n"
        "reason:  the address has no\n"
        "         street, nor a town\n"
        "\n"
        "id:      orders-3-17\n"
        "key:     customer-17\n"
        "sent as: -\n"
        "reason:  the address has no\n"
        "         street, nor a town"
    )


def test_columns_move_together_before_they_become_lines() -> None:
    columns = [number(name) for name in "abc"]
    rows: list[list[Cell]] = [[123456, 123456, 123456]]
    assert on_terminal(20, rows, columns) == "     a      b      c\n123456 123456 123456"
    assert on_terminal(19, rows, columns) == "a: 123456\nb: 123456\nc: 123456"


def test_a_short_heading_stands_in_where_room_is_short() -> None:
    columns = [number("broker"), number("high_watermark", "HW")]
    assert on_terminal(22, [[1, 7]], columns) == "broker  high watermark\n     1               7"
    assert on_terminal(21, [[1, 7]], columns) == "broker  HW\n     1   7"


def test_a_narrow_terminal_goes_without_what_can_be_spared_and_says_so() -> None:
    columns = [number("a"), number("b", spare=True), number("c"), number("d", spare=True)]
    rows: list[list[Cell]] = [[123456, 222222, 123456, 333333]]
    whole = "     a      b      c      d\n123456 222222 123456 333333"
    assert on_terminal(27, rows, columns) == whole
    without = "     a      b      c\n123456 222222 123456\nin a wider terminal:\nd"
    assert on_terminal(20, rows, columns) == without
    assert on_terminal(19, rows, columns).startswith("     a       c\n123456  123456\n")
    assert on_terminal(12, rows, columns).startswith("a: 123456\nb: 222222\n")
    piped = next(plain_lines(columns, rows))
    assert piped.split() == ["a", "b", "c", "d"]  # nothing is spared


def test_rows_are_printed_before_the_last_one_is_known() -> None:
    def endless() -> Iterator[list[Cell]]:
        while True:
            yield [7]

    lines = plain_lines([number("n")], endless())
    assert [next(lines) for _ in range(CHUNK_ROWS + 2)] == ["n"] + ["7"] * (CHUNK_ROWS + 1)


def test_later_rows_may_widen_a_column() -> None:
    rows: list[list[Cell]] = [["a", 1] for _ in range(CHUNK_ROWS)]
    rows.append(["long key", 2])
    lines = list(plain_lines([Column("key"), number("n")], rows))
    assert lines[1] == "a    1"
    assert lines[-1] == "long key  2"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "-"),
        ("", "-"),
        (0, "0"),
        (True, "true"),
        ("tab\there", "tab\\there"),
        ("a\\b\n\r", "a\\\\b\\n\\r"),
    ],
)
def test_a_tsv_cell_never_breaks_its_line(cell: Cell, text: str) -> None:
    assert tsv_line([cell, 1]) == f"{text}\t1"


def test_bytes_from_a_log_cannot_steer_the_terminal() -> None:
    rows: list[list[Cell]] = [[1, "\x1b[31mred\nnext é", None], [2, "[bold]markup[/bold]", None]]
    for text in ("\n".join(plain_lines(COLUMNS, rows)), on_terminal(80, rows)):
        assert "\x1b" not in text
        assert "\\x1b[31mred\\nnext é" in text
        assert "[bold]markup[/bold]" in text
