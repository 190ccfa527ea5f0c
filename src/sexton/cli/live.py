"""A table that stays on the terminal and changes where it stands.

What has moved since the last look is bright for a moment, so that one sees it move.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError, SextonError
from sexton.cli.failures import is_lively
from sexton.report.tables import Cell, Column, Row, cell_text, one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

BRIGHT_S = 2.0


@dataclass(frozen=True, slots=True)
class View:
    """What is to be seen now."""

    heading: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    keys: int  # how many of the first columns say which row it is
    bad: Callable[[str, Cell], bool] = lambda _column, _cell: False


def watch(look: Callable[[], View], interval_s: float) -> None:
    """Shows what `look` sees, again and again, until Ctrl-C."""
    if not is_lively(sys.stdout):
        hint = "without --watch it prints once, into anything"
        raise ConfigError("--watch", "needs a terminal to move on", hint)
    from rich.live import Live

    memory = Memory()
    try:
        with Live(screen=True, auto_refresh=False) as live:
            while True:
                live.update(_seen(look, memory, live.console.height), refresh=True)
                time.sleep(interval_s)
    except KeyboardInterrupt:
        return


def _seen(look: Callable[[], View], memory: Memory, height: int) -> RenderableType:
    from rich.text import Text

    try:
        return memory.table(look(), time.monotonic(), height)
    except SextonError as error:  # it may come back: a restart of `sexton up` is no reason to leave
        return Text(f"{error.subject}: {error.why}", style="red")


class Memory:
    """What the last look showed, and when each cell changed."""

    def __init__(self) -> None:
        self._cells: dict[tuple[Row, str], Cell] = {}
        self._changed: dict[tuple[Row, str], float] = {}

    def table(self, view: View, now: float, height: int) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        heading = Text(f"{view.heading}   {time.strftime('%H:%M:%S')}   Ctrl-C leaves")
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for column in view.columns:
            table.add_column(column.heading, justify=column.align, no_wrap=True)
        room = max(height - 4, 1)  # above it: heading, empty line, column names; below: "more"
        for row in view.rows[:room]:
            key = tuple(row[: view.keys])
            cells = []
            for column, cell in zip(view.columns, row, strict=True):
                style = self._style(view, (key, column.name), cell, now)
                cells.append(Text(one_line(cell_text(cell)), style=style))
            table.add_row(*cells)
        if len(view.rows) > room:
            table.add_row(f"... {len(view.rows) - room} more")
        return Group(heading, Text(), table)

    def _style(self, view: View, at: tuple[Row, str], cell: Cell, now: float) -> str:
        if at in self._cells and self._cells[at] != cell:
            self._changed[at] = now
        self._cells[at] = cell
        if view.bad(at[1], cell):
            return "bold red"
        moved = now - self._changed.get(at, -BRIGHT_S) < BRIGHT_S
        return "bold green" if moved else ""
