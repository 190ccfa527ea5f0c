"""What README.md and docs/start.md show is what happens.

The rule, for each `console` block: a line after `$ ` is a command, the lines below it are its
output, up to the next command.

- `$ sexton ...` is run in the repository. It may exit 0 or, to show findings, 1.
- `$ make TARGET` is run only if output is shown below it; else the target must exist.
- Other commands (`git clone`, `pip install`) are for the reader, and not run.
- Output is compared line by line, in order; a run of digits stands for any digits, runs of blanks
  are one blank, and a line `...` for any number of lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.comparing import first_difference

ROOT = Path(__file__).parent.parent.parent
PAGES = ("README.md", "docs/start.md")


@dataclass(frozen=True, slots=True)
class Shown:
    where: str
    command: str
    output: tuple[str, ...]


def shown_in(page: str) -> list[Shown]:
    found: list[Shown] = []
    inside = False
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append(Shown(f"{page}:{number}", line[2:], ()))
        elif inside:
            last = found[-1]
            found[-1] = Shown(last.where, last.command, (*last.output, line))
    return found


ALL = [shown for page in PAGES for shown in shown_in(page)]


@pytest.mark.parametrize("shown", ALL, ids=[f"{shown.where} {shown.command}" for shown in ALL])
def test_a_shown_command_does_what_is_shown(shown: Shown) -> None:
    match shlex.split(shown.command):
        case ["sexton", *_]:
            run = f"{shlex.quote(sys.executable)} -m sexton.cli.main{shown.command[6:]}"
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            if not shown.output:
                return
            run = shown.command
        case _:
            return
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    done = subprocess.run(
        run, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    difference = first_difference(shown.output, done.stdout.splitlines())
    assert difference is None, f"{shown.where}: {difference}\n\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (("took 3 s",), ["took 14 s"], True),
        (("a  b",), ["a     b"], True),
        (("a", "...", "z"), ["a", "b", "c", "z"], True),
        (("a", "..."), ["a", "b"], True),
        (("a",), ["a", "b"], False),
        (("a", "b"), ["a"], False),
        (("a", "...", "q"), ["a", "b"], False),
        ((), ["anything"], True),
    ],
)
def test_output_is_compared_as_the_rule_says(
    shown: tuple[str, ...], printed: list[str], same: bool
) -> None:
    assert (first_difference(shown, printed) is None) is same
