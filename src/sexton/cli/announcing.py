"""What does a command answer that goes on until Ctrl-C? What any other would, once it is ready.

JSON comes in one line here: whoever started the command reads that line, and need not look for the
end of an object.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import typer

from sexton.cli.writers import Ending, Format, open_writer
from sexton.report.tables import Column, Row

Rows = tuple[str, Sequence[Column], Sequence[Row]]  # their name, what they hold, and they


def announce(command: str, chosen: Format, ending: Ending, *tables: Rows) -> None:
    """Writes it at once; for programs, people want other words."""
    text = io.StringIO()
    writer = open_writer(command, chosen, text)
    for name, columns, rows in tables:
        writer.rows(name, columns, rows)
    writer.end(ending)
    answer = text.getvalue()
    if chosen is Format.json:
        answer = json.dumps(json.loads(answer)) + "\n"
    typer.echo(answer, nl=False)
