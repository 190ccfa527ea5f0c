"""Tests told as text: command, input, `----`, answer.

A case file is a story that people can read and a program can check. Blank lines and `#` comments
may stand between the blocks:

    # What is buried stays buried.

    log retention=1000          a command, then words and key=value options
    0 a=1                       input, up to the line of dashes
    1 -a
    ----
    2 records                   the answer, up to an empty line

    dump
    ----
    ----
    an answer with an empty line

    stands between doubled dashes
    ----
    ----

A test module names its files and says what each command does; the blocks of one file run in order,
so they may share state that the test sets up:

    @datadriven(__file__, "testdata/cleaning_*.txt")
    def test_cleaning(path: Path) -> None:
        log = Log()
        run_file(path, lambda case: answer(log, case))

`pytest --rewrite` writes the answers that came into the file; read that diff like code.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

DASHES = "----"

rewriting = False  # set by conftest.py, from `pytest --rewrite`


@dataclass(frozen=True, slots=True)
class Case:
    """One block of a file. Options arrive as text; `words` are the arguments without `=`."""

    command: str
    words: tuple[str, ...]
    options: dict[str, str]
    input: str
    expected: str
    where: str  # file:line of the command
    head: tuple[str, ...] = field(repr=False)  # the lines above the answer, as they are

    def option(self, name: str, default: str | None = None) -> str:
        """The value of `name=`; without a default it must be there."""
        value = self.options.get(name, default)
        assert value is not None, f"{self.where}: `{self.command}` needs {name}=..."
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """The same, as an integer."""
        return int(self.option(name, None if default is None else str(default)))

    @property
    def lines(self) -> list[str]:
        return self.input.splitlines()


Handler = Callable[[Case], str]


def datadriven(test_file: str, pattern: str) -> pytest.MarkDecorator:
    """Run a test once for each file that matches `pattern` beside `test_file`, as its `path`."""
    folder = Path(test_file).parent
    paths = sorted(folder.glob(pattern))
    assert paths, f"no case files match {folder / pattern}"
    return pytest.mark.parametrize("path", paths, ids=[path.stem for path in paths])


def run_file(path: Path, handler: Handler, rewrite: bool | None = None) -> None:
    """Give each case of the file to `handler`, and compare its answer with the one in the file."""
    text = path.read_text(encoding="utf-8")
    first_wrong: str | None = None
    pieces: list[str] = []
    for piece in parse(text, str(path)):
        if isinstance(piece, str):
            pieces.append(piece)
            continue
        answer = _ask(handler, piece)
        if answer != piece.expected and first_wrong is None:
            first_wrong = piece.where
        pieces.append(_block(piece.head, answer))
    actual = "".join(pieces)
    if rewriting if rewrite is None else rewrite:
        if actual != text:
            path.write_text(actual, encoding="utf-8")
    elif first_wrong is not None:
        diff = difflib.unified_diff(
            text.splitlines(), actual.splitlines(), "expected", "answered", lineterm="", n=5
        )
        pytest.fail(
            f"{first_wrong}: another answer came (pytest --rewrite records it)\n" + "\n".join(diff),
            pytrace=False,
        )


def _ask(handler: Handler, case: Case) -> str:
    try:
        answer = handler(case)
    except Exception as error:
        error.add_note(f"while answering `{case.head[0]}` at {case.where}")
        raise
    return "\n".join(line.rstrip() for line in answer.rstrip("\n").split("\n"))


def parse(text: str, name: str) -> Iterator[Case | str]:
    """The file's blocks, and as plain text what stands between them."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            yield lines[at] + "\n"
            at += 1
        else:
            case, at = _parse_block(lines, at, name)
            yield case


def _parse_block(lines: list[str], start: int, name: str) -> tuple[Case, int]:
    """The block whose command is at `start`, and the place after it."""
    where = f"{name}:{start + 1}"
    try:
        dashes = lines.index(DASHES, start)
    except ValueError:
        raise ValueError(f"{where}: no {DASHES} after this command") from None
    end, expected = _parse_answer(lines, dashes + 1, where)
    command, *arguments = lines[start].split()
    options = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    case = Case(
        command=command,
        words=tuple(argument for argument in arguments if "=" not in argument),
        options=options,
        input="\n".join(lines[start + 1 : dashes]),
        expected=expected,
        where=where,
        head=tuple(lines[start : dashes + 1]),
    )
    return case, end


def _parse_answer(lines: list[str], start: int, where: str) -> tuple[int, str]:
    """The place after the answer that begins at `start`, and the answer."""
    if lines[start : start + 1] != [DASHES]:
        end = next((at for at in range(start, len(lines)) if not lines[at].strip()), len(lines))
        return end, "\n".join(lines[start:end])
    for end in range(start + 1, len(lines) - 1):
        if lines[end] == lines[end + 1] == DASHES:
            return end + 2, "\n".join(lines[start + 1 : end])
    raise ValueError(f"{where}: the answer after doubled {DASHES} has no end")


def _block(head: tuple[str, ...], answer: str) -> str:
    lines = answer.split("\n") if answer else []
    assert DASHES not in lines, f"the answer to `{head[0]}` has a line of dashes"
    if "" in lines:
        lines = [DASHES, *lines, DASHES, DASHES]
    return "".join(line + "\n" for line in [*head, *lines])
