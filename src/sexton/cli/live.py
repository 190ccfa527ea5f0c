"""A table that stays on the terminal and changes where it stands.

What has moved since the last look is bright for a moment, so that one sees it move. A terminal that
is too narrow loses whole columns, the least important first, and a last line says which: a number
that is cut would be another number.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError, SextonError
from sexton.cli.failures import is_lively
from sexton.cli.writers import Format
from sexton.report.tables import (
    GAP,
    Cell,
    Column,
    Row,
    cell_text,
    folded_headings,
    heading_widths,
    one_line,
    table_width,
)

if TYPE_CHECKING:
    from rich.console import ConsoleDimensions, RenderableType
    from rich.text import Text

BRIGHT_S = 2.0


@dataclass(frozen=True, slots=True)
class View:
    """What is to be seen now."""

    heading: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    keys: int  # how many of the first columns say which row it is
    bad: Callable[[str, Cell], bool] = lambda _column, _cell: False
    least: Sequence[str] = ()  # columns that a narrow terminal goes without, these first

    def fitted(self, width: int) -> tuple[list[int], list[int]]:
        """Which columns there is room for, and how wide each is."""
        texts = [[len(one_line(cell_text(cell))) for cell in row] for row in self.rows]
        cells = [max(column, default=0) for column in zip(*texts, strict=True)]
        cells = cells or [0] * len(self.columns)
        left = list(range(len(self.columns)))
        for name in (None, *self.least):
            left = [at for at in left if self.columns[at].name != name]
            widths = heading_widths(
                [self.columns[at] for at in left], [cells[at] for at in left], width
            )
            if table_width(widths) <= width:
                break
        return left, widths


def watch(look: Callable[[], View], interval_s: float, chosen: Format = Format.table) -> None:
    """Shows what `look` sees, again and again, until Ctrl-C."""
    _check_screen(chosen)
    from rich.live import Live

    memory = Memory()
    try:
        seen = _first(look)
        with Live(screen=True, auto_refresh=False) as live:
            while True:
                live.update(_shown(seen, memory, live.console.size), refresh=True)
                time.sleep(interval_s)
                seen = _seen(look)
    except KeyboardInterrupt:
        return


def _check_screen(chosen: Format) -> None:
    """Can anything move there, and is it for people?"""
    hint = "without --watch it prints once, into anything"
    if chosen is not Format.table:
        raise ConfigError(f"--format {chosen.value}", "does not go with --watch", hint)
    if not sys.stdout.isatty():
        raise ConfigError("--watch", "needs a terminal to move on", hint)
    if not is_lively(sys.stdout):
        raise ConfigError("--watch", "nothing moves with NO_COLOR, or with TERM=dumb", hint)


def _first(look: Callable[[], View]) -> View | SextonError:
    """What was asked for wrongly does not come right by waiting."""
    found = _seen(look)
    if isinstance(found, ConfigError):
        raise found
    return found


def _seen(look: Callable[[], View]) -> View | SextonError:
    try:
        return look()
    except SextonError as error:  # it may come back: a restart of `sexton up` is no reason to leave
        return error


def _shown(seen: View | SextonError, memory: Memory, size: ConsoleDimensions) -> RenderableType:
    from rich.text import Text

    if isinstance(seen, View):
        return memory.table(seen, time.monotonic(), size)
    return Text("\n".join(filter(None, (seen.told, seen.hint))), style="red")


class Memory:
    """What the last look showed, and when each cell changed."""

    def __init__(self) -> None:
        self._cells: dict[tuple[Row, str], Cell] = {}
        self._changed: dict[tuple[Row, str], float] = {}

    def table(self, view: View, now: float, size: ConsoleDimensions) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        shown, widths = view.fitted(size.width)
        columns = [view.columns[at] for at in shown]
        headings = folded_headings(columns, widths)
        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
        for column, heading, width in zip(columns, headings, widths, strict=True):
            table.add_column(heading, justify=column.align, no_wrap=True, width=width)
        heading_height = headings[0].count("\n") + 1
        room = max(size.height - heading_height - 4, 1)  # two lines above, and two below
        for row in view.rows[:room]:
            cells = self._cells_of(view, row, now)
            table.add_row(*(cells[at] for at in shown))
        parts: list[RenderableType] = [_heading(view), Text(), table]
        if len(view.rows) > room:
            parts.append(Text(f"... {len(view.rows) - room} more"))
        hidden = [c.heading for at, c in enumerate(view.columns) if at not in shown]
        if hidden:
            parts.append(Text(f"in a wider terminal: {', '.join(hidden)}", "dim"))
        return Group(*parts)

    def _cells_of(self, view: View, row: Row, now: float) -> list[Text]:
        from rich.text import Text

        key = tuple(row[: view.keys])
        return [
            Text(one_line(cell_text(cell)), self._style(view, (key, column.name), cell, now))
            for column, cell in zip(view.columns, row, strict=True)
        ]

    def _style(self, view: View, at: tuple[Row, str], cell: Cell, now: float) -> str:
        if at in self._cells and self._cells[at] != cell:
            self._changed[at] = now
        self._cells[at] = cell
        if view.bad(at[1], cell):
            return "bold red"
        moved = now - self._changed.get(at, -BRIGHT_S) < BRIGHT_S
        return "bold green" if moved else ""


def _heading(view: View) -> Text:
    from rich.text import Text

    return Text(f"{view.heading}   {time.strftime('%H:%M:%S')}   Ctrl-C leaves")
