"""What a command says, and so how it exits.

A command opens an `Output`, says what it finds as it finds it, and never thinks about formats or
exit codes; both follow from what was said.

    with Output("log verify", chosen) as out:
        with out.progress("checking", total_bytes, "bytes") as advance:
            ...
            out.finding(finding)                    # 1, unless it is a note
            out.incomplete(path, "not readable")    # 3, unless something was found
        out.summarize(segments=12, records=90_210)

Leaving the block ends the answer and raises `typer.Exit` if the code is not 0. An error that
escapes the block is part of the answer too: the JSON object on stdout stays one object.

    exit code   0 clean   1 findings or failure   2 usage   3 incomplete (findings win)
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TextIO

import typer

from sexton.base.errors import SextonError
from sexton.base.findings import Finding, Severity
from sexton.cli.failures import Failure, failure_of, fitting, is_lively, print_failure
from sexton.cli.writers import Drawing, Ending, Format, open_writer
from sexton.report.findings import describe_counts, few_of_each
from sexton.report.incomplete import by_reason, said_once
from sexton.report.tables import Cell, Column, Row

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.text import Text

FOUND = 1
INCOMPLETE = 3
_COMMAND = re.compile("`(sexton (?:audit|cluster|guard|repair|txn) [^`]+)`")

Unit = Literal["bytes", "items"]


class Output:
    """One run's answer on stdout, and its asides on stderr."""

    def __init__(
        self,
        command: str,
        chosen: Format,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        *,
        reached: str = "",
    ) -> None:
        self.format = chosen
        self._reached = reached  # `-b kafka:9092`: people copy commands that are told in passing
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr
        self.counts: Counter[Severity] = Counter()
        self._ending = Ending()
        self._writer = open_writer(command, chosen, self.stdout)
        self._moving: Progress | None = None

    def rows(self, name: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        """A table. `name` is its key in JSON, and a plural: without its `s` it names one row."""
        assert name.endswith("s"), name
        if self._moving and self.stdout.isatty():
            self._moving.stop()  # a bar and rows on one terminal overwrite each other
        self._writer.rows(name, columns, rows)

    def finding(self, finding: Finding, drawing: Drawing | None = None) -> None:
        """Something wrong with what was inspected; people may be shown a drawing of it."""
        self.counts[finding.severity] += 1
        self._writer.finding(self._to_copy(finding), drawing)

    def findings(self, found: Iterable[Finding]) -> None:
        """Many of them: programs get each, people some of each code and where the others are."""
        every = list(found)
        if self.format is not Format.table:
            for finding in every:
                self.finding(finding)
            return
        for finding, count in few_of_each(every):
            self.counts[finding.severity] += count
            self._writer.finding(self._to_copy(finding))

    def _to_copy(self, finding: Finding) -> Finding:
        if self.format is not Format.table or finding.remedy is None:
            return finding
        return replace(finding, remedy=with_options(finding.remedy, self._reached))

    def unshown(self, severity: Severity) -> None:
        """One finding of very many: people are told in some other way, programs of each."""
        assert self.format is Format.table
        self.counts[severity] += 1

    def incomplete(self, subject: str, why: str) -> None:
        """Something that could not be looked at; the rest goes on, but nobody may call it clean."""
        self._ending.incomplete.append({"subject": subject, "why": why})
        self._tell_incomplete(f"{subject}: {said_once(subject, why)}")

    def incomplete_parts(self, parts: Iterable[tuple[str, str]]) -> None:
        """Many of them: programs get each, people one line for each reason that many share."""
        each = list(parts)
        self._ending.incomplete += [{"subject": subject, "why": why} for subject, why in each]
        for subject, why in by_reason(each):
            self._tell_incomplete(f"{subject}: {why}")

    def _tell_incomplete(self, told: str) -> None:
        line = fitting(f"incomplete: {told}", self.stderr)
        if self._moving:
            self._moving.console.print(line, markup=False, soft_wrap=True)  # above the bar
        else:
            print(line, file=self.stderr)

    def skipped(self, error: SextonError) -> None:
        """The same, said by an error that stopped one part of the work."""
        self._ending.incomplete.append({"subject": error.subject, "why": error.why})
        self._tell_incomplete(error.told)

    def say(self, text: str | Text) -> None:
        """A sentence for people, in colour if it has any; programs do not get it."""
        self._writer.say(text)

    def say_findings(self) -> None:
        """`2 errors, 1 note`, or `no findings`; for people."""
        self.say(describe_counts(self.counts))

    def summarize(self, **facts: Cell) -> None:
        """Named figures for the end of the answer."""
        self._ending.summary.update(facts)

    @property
    def exit_code(self) -> int:
        """The code that what was said so far deserves."""
        if self._ending.failure is not None:
            return self._ending.failure.exit_code
        if self.counts["error"] or self.counts["warning"]:
            return FOUND
        return INCOMPLETE if self._ending.incomplete else 0

    @contextmanager
    def progress(
        self, what: str, total: int | None = None, unit: Unit = "items"
    ) -> Iterator[Callable[[int], None]]:
        """A bar on stderr, moved by calling what is yielded; nothing at all when piped.

        Inside another one it is a second line below that: two displays would overwrite each other.
        """
        if not is_lively(self.stderr):
            yield _ignore
        elif self._moving is not None:
            yield from _line(self._moving, what, total, unit)
        else:
            from sexton.cli.bars import open_bar

            with open_bar(self.stderr) as self._moving:
                try:
                    yield from _line(self._moving, what, total, unit)
                finally:
                    self._moving = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        match error:
            case BrokenPipeError() | typer.Exit():
                return  # nobody listens any more; or the code was chosen already
            case None:
                self._end(None)
            case _:
                failure = failure_of(error)
                self._end(failure)
                if failure.hint is not None:
                    failure = replace(failure, hint=with_options(failure.hint, self._reached))
                print_failure(failure, error, self.stderr)
        if self.exit_code:
            raise typer.Exit(self.exit_code)

    def _end(self, failure: Failure | None) -> None:
        self._ending.failure = failure
        self._ending.exit_code = self.exit_code
        self._writer.end(self._ending)
        self.stdout.flush()


def with_options(text: str, options: str) -> str:
    """Commands in a sentence, so that they work as they stand: with the same -b as this one."""
    if not options:
        return text
    whole = _COMMAND.sub(lambda found: f"`{found[1]} {options}`", text)
    return whole if whole == text else whole.replace(", with the same -b", "")


def _ignore(amount: int) -> None:
    """The bar that nobody sees."""


def _line(
    bar: Progress, what: str, total: int | None, unit: Unit
) -> Iterator[Callable[[int], None]]:
    task = bar.add_task(what, total=total, unit=unit)
    try:
        yield lambda amount: bar.advance(task, amount)
    finally:
        bar.remove_task(task)
