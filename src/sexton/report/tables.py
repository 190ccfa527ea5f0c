"""How do rows become text, while nobody knows yet how many there will be?

Column widths depend on every row, but a log has more rows than memory. So rows are taken in chunks:
the first chunk decides the widths, later ones may only widen them, and what has been printed stays.

    rows ──chunk──▶ widths ──▶ a rich table         on a terminal: headings, then text are folded
                                                    between words, then columns left out that one
                                                    can do without
                           ──▶ padded plain text    into a pipe: nothing folded, nothing cut
                           ──▶ `name: value` lines  on a terminal too narrow for the columns

A program wants `tsv_line` instead: no header, tabs, always the same columns, `-` for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console

Cell = int | float | str | bool | None
Row = Sequence[Cell]

CHUNK_ROWS = 500  # enough to settle the widths, few enough that the first ones show at once
LONGEST_WORD = 32  # kept in one piece: names, codes and times; a digest or a path may be folded
NARROWEST_COLUMN = 8  # a long text column folded to less than this reads worse than lines do
ROOMIEST_COLUMN = 16  # and to less than this, worse than a table with a column less
GAP = 2
NARROW_GAP = 1  # where columns would not fit otherwise


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is the column's heading, and its key in JSON: lower case, words joined by `_`."""

    name: str
    align: Literal["left", "right"] = "left"
    short: str | None = None  # the heading where room is short; else its words are folded
    spare: bool = False  # a narrow terminal goes without it, and says so

    @property
    def heading(self) -> str:
        return self.name.replace("_", " ")

    @property
    def narrow_heading(self) -> str:
        return self.short or self.heading


def number(name: str, short: str | None = None, *, spare: bool = False) -> Column:
    """A column of numbers: aligned right, so that magnitudes can be compared by eye."""
    return Column(name, "right", short, spare)


def cell_text(cell: Cell) -> str:
    """A cell for people: nothing is shown as `-`, and truth in words."""
    match cell:
        case None | "":
            return "-"
        case True:
            return "yes"
        case False:
            return "no"
        case _:
            return str(cell)


def tsv_line(row: Row) -> str:
    """One headerless line for awk: tabs between cells, none inside them, `-` for nothing."""
    return "\t".join(map(_tsv_cell, row))


def _tsv_cell(cell: Cell) -> str:
    match cell:
        case None | "":
            return "-"
        case bool():
            return "true" if cell else "false"
        case str():
            return (
                cell.replace("\\", "\\\\")
                .replace("\t", "\\t")
                .replace("\n", "\\n")
                .replace("\r", "\\r")
            )
        case _:
            return str(cell)


def plain_lines(columns: Sequence[Column], rows: Iterable[Row]) -> Iterator[str]:
    """A heading and the rows as padded text, for a pipe or a file: nothing is folded or cut."""
    headings = [[column.heading for column in columns]]
    wide = [len(column.heading) for column in columns]
    for texts, cells in _measured(columns, rows):
        widths = list(map(max, wide, cells))
        for row in [*headings, *texts]:
            yield _padded(columns, widths, row)
        headings = []


def _padded(columns: Sequence[Column], widths: Sequence[int], row: Sequence[str]) -> str:
    cells = (
        text.rjust(width) if column.align == "right" else text.ljust(width)
        for column, width, text in zip(columns, widths, row, strict=True)
    )
    return (" " * GAP).join(cells).rstrip()


def print_rich(console: Console, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """The rows as a rich table on a terminal, or as `name: value` lines where it is too narrow."""
    shown: list[int] | None = None  # which columns; none at all if rows are printed as lines
    words = [0] * len(columns)
    for texts, cells in _measured(columns, rows):
        for row in texts:
            words = list(map(max, words, map(_longest_word, row)))
        sizes = list(map(Size, cells, words))
        show_header = shown is None
        if shown is None:  # the first chunk decides: a change of layout halfway would confuse
            shown = _shown(columns, sizes, console.width)
        if not shown:
            _print_as_lines(console, columns, texts, goes_on=not show_header)
            continue
        kept, of_kept = [columns[at] for at in shown], [sizes[at] for at in shown]
        whole = Layout(kept, [size.cell for size in of_kept], GAP)
        layout = _layout(kept, of_kept, console.width) or whole
        _print_chunk(console, layout, [[row[at] for at in shown] for row in texts], show_header)
    hidden = [column.heading for at, column in enumerate(columns) if shown and at not in shown]
    if hidden:
        console.print(f"in a wider terminal: {', '.join(hidden)}", style="dim", markup=False)


@dataclass(frozen=True, slots=True)
class Layout:
    columns: Sequence[Column]
    widths: Sequence[int]
    gap: int


class Size(NamedTuple):
    """What a column's cells need."""

    cell: int  # the longest of them in one line
    word: int  # or its words folded, each in one piece


def _shown(columns: Sequence[Column], sizes: Sequence[Size], available: int) -> list[int]:
    """All columns if they fit, else all but the last ones that can be spared; or none."""
    left = list(range(len(columns)))
    spare = [at for at in left if columns[at].spare]
    while _layout([columns[at] for at in left], [sizes[at] for at in left], available) is None:
        if not spare:
            return []
        left.remove(spare.pop())
    return left


def _layout(columns: Sequence[Column], sizes: Sequence[Size], available: int) -> Layout | None:
    """None if columns would be unreadable."""
    least = ROOMIEST_COLUMN if any(column.spare for column in columns) else NARROWEST_COLUMN
    for gap in (GAP, NARROW_GAP):
        fitted = _fit(columns, sizes, available, gap, least)
        if fitted is not None:
            return Layout(columns, fitted, gap)
    return None


def _print_chunk(
    console: Console, layout: Layout, texts: Sequence[Sequence[str]], show_header: bool
) -> None:
    from rich.table import Table
    from rich.text import Text

    padding = (0, layout.gap, 0, 0)
    table = Table(box=None, padding=padding, pad_edge=False, show_header=show_header)
    headings = folded_headings(layout.columns, layout.widths)
    for column, heading, width in zip(layout.columns, headings, layout.widths, strict=True):
        table.add_column(heading, justify=column.align, width=width, overflow="fold")
    for row in texts:
        # Text, not str: what stands in a log must not be taken for rich's markup.
        table.add_row(*(Text(text) for text in row))
    console.print(table)


def _print_as_lines(
    console: Console, columns: Sequence[Column], texts: Sequence[Sequence[str]], goes_on: bool
) -> None:
    from rich.table import Table
    from rich.text import Text

    label_width = max(len(column.heading) for column in columns) + 1
    for row in texts:
        lines = Table.grid(padding=(0, 1, 0, 0))  # text goes on below itself, not below its name
        lines.add_column(width=label_width, overflow="fold")
        lines.add_column(overflow="fold")
        for column, text in zip(columns, row, strict=True):
            lines.add_row(Text(f"{column.heading}:"), Text(text))
        if goes_on:
            console.print()
        console.print(lines)
        goes_on = True


def _fit(
    columns: Sequence[Column], sizes: Sequence[Size], available: int, gap: int, least: int
) -> list[int] | None:
    """Widths that fit, the widest text columns folded first; None if that would be unreadable."""
    fitted = heading_widths(columns, [size.cell for size in sizes], available)
    narrowest = [max(least, min(size.word, LONGEST_WORD)) for size in sizes]
    excess = table_width(fitted, gap) - available
    while excess > 0:
        foldable = [
            at
            for at, column in enumerate(columns)
            if column.align == "left" and fitted[at] > narrowest[at]
        ]
        if not foldable:
            return None
        fitted[max(foldable, key=lambda at: fitted[at])] -= 1
        excess -= 1
    return fitted


def table_width(widths: Sequence[int], gap: int = GAP) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def heading_widths(columns: Sequence[Column], cells: Sequence[int], available: int) -> list[int]:
    """Widths for whole cells, and for headings on one line, or on several where room is short."""
    wide = [max(len(column.heading), cell) for column, cell in zip(columns, cells, strict=True)]
    if table_width(wide) <= available:
        return wide
    words = [max(map(len, column.narrow_heading.split())) for column in columns]
    return list(map(max, words, cells))


def folded_headings(columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    """Each heading folded to its width; all of them stand on the line above the first row."""
    folded = [_folded(column, width) for column, width in zip(columns, widths, strict=True)]
    height = max(map(len, folded), default=0)
    return ["\n".join([""] * (height - len(lines)) + lines) for lines in folded]


def _folded(column: Column, width: int) -> list[str]:
    if column.short is not None and len(column.heading) > width:
        return [column.short]
    return wrap(column.heading, width)


def _measured(
    columns: Sequence[Column], rows: Iterable[Row]
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Chunks of rows as text, with the widths that cells of this and every earlier chunk need.

    The first chunk comes even if it is empty: a table without rows still has its headings.
    """
    widths = [0] * len(columns)
    iterator = iter(rows)
    first = True
    while (chunk := list(islice(iterator, CHUNK_ROWS))) or first:
        texts = [[one_line(cell_text(cell)) for cell in row] for row in chunk]
        for row in texts:
            widths = list(map(max, widths, map(len, row)))
        yield texts, widths
        first = False


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def one_line(text: str) -> str:
    """Neither a line is broken by it, nor a terminal steered by bytes from a log."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
