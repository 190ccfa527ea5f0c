"""One command's answer in four formats, written while it is still being worked out.

Rows are never collected: a log holds more of them than memory does. Findings are few, and may come
up while rows are on their way, so the JSON object keeps them for its end; the others print at once.

    table   for people: tables, paragraphs, and a summary
    json    {"sexton": 1, "command": "log stats", "segments": [...], "findings": [...],
             "summary": {...}, "incomplete": [...], "ok": true, "exit_code": 0, "error": null}
    jsonl   {"type": "segment", ...} per row, {"type": "finding", ...}, and a last
            {"type": "end", ...} with the rest of the object above: no end, no complete answer
    tsv     rows only, without headings, `-` for nothing

The version, `"sexton": 1`, rises when a key goes or changes its meaning. Keys may be added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Protocol, TextIO

from sexton.base.findings import Finding
from sexton.cli.failures import Failure, is_lively
from sexton.report.findings import finding_lines, finding_object, finding_row, finding_text
from sexton.report.prose import folded, harmless
from sexton.report.tables import Cell, Column, Row, cell_text, plain_lines, print_rich, tsv_line

if TYPE_CHECKING:
    from rich.text import Text

ENVELOPE_VERSION = 1
PLAIN_WIDTH = 100  # of a drawing into a pipe or a file

Drawing = Callable[[int], "Text"]  # a finding for people, at a width, where words do not do


class Format(StrEnum):
    table = "table"
    json = "json"
    jsonl = "jsonl"
    tsv = "tsv"


@dataclass(slots=True)
class Ending:
    """What stands at the end of every answer."""

    summary: dict[str, Cell] = field(default_factory=dict)
    incomplete: list[dict[str, Cell]] = field(default_factory=list)
    exit_code: int = 0
    failure: Failure | None = None

    def as_object(self) -> dict[str, object]:
        return {
            "summary": self.summary,
            "incomplete": self.incomplete,
            "ok": self.exit_code == 0,
            "exit_code": self.exit_code,
            "error": self.failure.as_object() if self.failure else None,
        }


class Writer(Protocol):
    def rows(self, name: str, columns: Sequence[Column], rows: Iterable[Row]) -> None: ...
    def finding(self, finding: Finding, drawing: Drawing | None = None) -> None: ...
    def say(self, text: str | Text) -> None: ...
    def end(self, ending: Ending) -> None: ...


def open_writer(command: str, chosen: Format, stdout: TextIO) -> Writer:
    """The writer for one run of `command`."""
    match chosen:
        case Format.table:
            return TerminalWriter(stdout) if stdout.isatty() else PlainWriter(stdout)
        case Format.json:
            return JsonWriter(command, stdout)
        case Format.jsonl:
            return JsonLinesWriter(command, stdout)
        case Format.tsv:
            return TsvWriter(stdout)


class PlainWriter:
    """For people, into a pipe or a file: no colour, no folding."""

    def __init__(self, stdout: TextIO) -> None:
        self.stdout = stdout
        self.began = False

    def rows(self, name: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        del name
        self._begin_part()
        for line in plain_lines(columns, rows):
            self.stdout.write(line + "\n")

    def finding(self, finding: Finding, drawing: Drawing | None = None) -> None:
        self.began = True
        if drawing is not None:
            self.stdout.write(drawing(PLAIN_WIDTH).plain + "\n\n")
            return
        for line in finding_lines(finding, width=None):
            self.stdout.write(line + "\n")

    def say(self, text: str | Text) -> None:
        self.began = True
        self.stdout.write(harmless(str(text)) + "\n")

    def end(self, ending: Ending) -> None:
        if ending.summary:
            self._begin_part()
        facts = [_fact(name, value) for name, value in ending.summary.items()]
        width = max((len(name) for name, _ in facts), default=0)
        for name, value in facts:
            self.say(f"{name.ljust(width)}  {value}")

    def _begin_part(self) -> None:
        """An empty line between what is above and the table or summary that comes."""
        if self.began:
            self.stdout.write("\n")
        self.began = True


def _fact(name: str, value: Cell) -> tuple[str, str]:
    """A figure of the summary for people: milliseconds and bytes in units that one can picture."""
    label, _, unit = name.replace("_", " ").rpartition(" ")
    if not label or unit not in ("ms", "bytes"):
        return name.replace("_", " "), cell_text(value)
    if not isinstance(value, int):
        return label, cell_text(value)
    from sexton.report.quantities import duration, moment, size

    if unit == "bytes":
        return label, size(value)
    return label, moment(value) if label.endswith("until") else duration(value)


class TerminalWriter(PlainWriter):
    """For people, on a terminal: folded to its width, and in colour if its owner did not object."""

    def __init__(self, stdout: TextIO) -> None:
        from rich.console import Console

        super().__init__(stdout)
        self.console = Console(
            file=stdout, highlight=False, color_system="auto" if is_lively(stdout) else None
        )

    def rows(self, name: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        del name
        self._begin_part()
        print_rich(self.console, columns, rows)

    def finding(self, finding: Finding, drawing: Drawing | None = None) -> None:
        self.began = True
        if drawing is not None:
            self.console.print(drawing(self.console.width), "", sep="\n", soft_wrap=True)
            return
        self.console.print(finding_text(finding, self.console.width), soft_wrap=True)

    def say(self, text: str | Text) -> None:
        if isinstance(text, str):
            super().say("\n".join(folded(text, self.console.width)))
        else:
            self.began = True
            self.console.print(text, soft_wrap=True)


class JsonWriter:
    """One object, written from front to back; each row on a line of its own."""

    def __init__(self, command: str, stdout: TextIO) -> None:
        self.stdout = stdout
        self.encode = _encoder(stdout)
        self.findings: list[Finding] = []
        self.names = {"findings"}
        stdout.write(f'{{"sexton": {ENVELOPE_VERSION}, "command": {self.encode(command)}')
        self.in_rows = False

    def rows(self, name: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        assert name not in self.names, f"{name} would stand in the object twice"
        self.names.add(name)
        keys = [column.name for column in columns]
        self.stdout.write(f',\n "{name}": [')
        self.in_rows = True  # an error among the rows leaves the array for `end` to close
        separator = "\n  "
        for row in rows:
            self.stdout.write(separator + self.encode(dict(zip(keys, row, strict=True))))
            separator = ",\n  "
        self._close_rows()

    def finding(self, finding: Finding, drawing: Drawing | None = None) -> None:
        del drawing
        self.findings.append(finding)

    def say(self, text: str | Text) -> None:
        """Sentences are for people."""

    def end(self, ending: Ending) -> None:
        self._close_rows()
        found = ",\n  ".join(self.encode(finding_object(finding)) for finding in self.findings)
        self.stdout.write(f',\n "findings": [{found}]')
        for key, value in ending.as_object().items():
            self.stdout.write(f',\n "{key}": {self.encode(value)}')
        self.stdout.write("}\n")

    def _close_rows(self) -> None:
        if self.in_rows:
            self.stdout.write("]")
        self.in_rows = False


class JsonLinesWriter:
    """An object per line, at once; the last one says that nothing is missing."""

    def __init__(self, command: str, stdout: TextIO) -> None:
        self.command = command
        self.stdout = stdout
        self.encode = _encoder(stdout)

    def rows(self, name: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        keys = [column.name for column in columns]
        kind = name.removesuffix("s")
        for row in rows:
            self._line(kind, dict(zip(keys, row, strict=True)))

    def finding(self, finding: Finding, drawing: Drawing | None = None) -> None:
        del drawing
        self._line("finding", finding_object(finding))

    def say(self, text: str | Text) -> None:
        """Sentences are for people."""

    def end(self, ending: Ending) -> None:
        head = {"sexton": ENVELOPE_VERSION, "command": self.command}
        self._line("end", head | ending.as_object())

    def _line(self, kind: str, content: Mapping[str, object]) -> None:
        self.stdout.write(self.encode({"type": kind} | dict(content)) + "\n")


class TsvWriter:
    """Rows for awk and cut, and nothing else."""

    def __init__(self, stdout: TextIO) -> None:
        self.stdout = stdout

    def rows(self, name: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        del name, columns
        for row in rows:
            self.stdout.write(tsv_line(row) + "\n")

    def finding(self, finding: Finding, drawing: Drawing | None = None) -> None:
        del drawing
        self.stdout.write(tsv_line(finding_row(finding)) + "\n")

    def say(self, text: str | Text) -> None:
        """Sentences are for people."""

    def end(self, ending: Ending) -> None:
        """The summary has no stable columns; whoever wants it asks for JSON."""


class _Encode(Protocol):
    def __call__(self, value: object) -> str: ...


def _encoder(stdout: TextIO) -> _Encode:
    # Half a character from a broken file name reaches UTF-8 output as `\udc..` (see
    # `main.prepare_streams`), which JSON understands; any other encoding gets escapes throughout.
    utf8 = (stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"
    return partial(json.dumps, ensure_ascii=not utf8, allow_nan=False, default=_plain_number)


def _plain_number(value: object) -> object:
    """Columns hold numpy's numbers, which json does not know."""
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"{type(value).__name__} has no place in JSON")
    return item()
