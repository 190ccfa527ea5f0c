"""How does a bar tell how far long work is?

By bytes or by things done, and when it will be over; where nobody knows how much there is, by the
time it has taken. A narrow terminal gets the bar without the figures.
"""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from sexton.report.quantities import whole_seconds

NARROWEST = 60  # else the figures would break the line


def open_bar(stderr: TextIO) -> Progress:
    console = Console(file=stderr)
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False),
        BarColumn(None),
    ]
    if console.width >= NARROWEST:
        columns.append(Figures(Column(no_wrap=True)))  # the bar gives way
    return Progress(
        *columns,
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        expand=True,
    )


class Figures(ProgressColumn):
    """`1.2 MB of 8.0 MB, 12 s left`; `3 of 20, 4 s left`; `7 s`."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            done = f"{int(task.completed)}, " if task.completed else ""
            return Text(f"{done}{whole_seconds(int(task.elapsed or 0))}")
        show = decimal if task.fields.get("unit") == "bytes" else str
        figures = f"{show(int(task.completed))} of {show(int(task.total))}"
        left = task.time_remaining
        return Text(figures if left is None else f"{figures}, {whole_seconds(int(left))} left")
