"""Every command on every page is run, in a world that has what the page speaks of.

A page is read from its top to its end by one reader, who types every line of every block for a
shell. A line has to do what it is for: exit with 0, or with 1 because it found something, and never
with an error of its own. Below a `console` block's command its output is compared, as far as shown.

- What nobody runs is listed in `not_run.py`, each with its reason.
- A line that says how a repair is to choose starts in a world where there is still a choice.
- The `console` blocks of README.md and start.md are read by `test_readme.py`; the Python blocks by
  `test_python_blocks.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs import test_readme
from tests.docs.blocks import ALL, SHELLS, Block
from tests.docs.comparing import first_difference
from tests.docs.kafka_tools import install, is_tool
from tests.docs.not_run import MOST, NOT_RUN, why_not
from tests.docs.prepared import prepared
from tests.docs.shell import Said, Shell, lines, with_output
from tests.docs.world import World, the_world

GENERATED = ("docs/reference/cli/", "docs/reference/python/")
CHOOSES = re.compile(r"--publish-tombstone|--keep-value|--trust|--keep-copy")
SHOWN_FOR_ITS_ERROR = {"sexton warmup --format json --nonsense | jq -r .error.why": 2}

BLOCKS = [
    block
    for block in ALL
    if block.language in SHELLS
    and not block.page.startswith(GENERATED)
    and not (block.page in test_readme.PAGES and block.language == "console")
]
PAGES = sorted({block.page for block in BLOCKS})


class Reader:
    """One who types what a page says."""

    def __init__(self, page: str, built: Path, place: Path) -> None:
        self.page, self.built, self.place = page, built, place
        self.worlds = 0
        self.around = ExitStack()
        self.world, self.shell = self._begin()

    def _begin(self) -> tuple[World, Shell]:
        self.around.close()
        self.worlds += 1
        here = self.place / f"world-{self.worlds}"
        here.mkdir()
        world = self.around.enter_context(the_world(self.built, here))
        self.around.enter_context(prepared(self.page, world))
        shell = Shell(here)
        self.around.callback(shell.close)
        os.chdir(here)
        os.environ["SEXTON_DATA"] = str(here / "up")
        return world, shell

    def types(self, line: str) -> Said:
        if CHOOSES.search(line):
            self.world, self.shell = self._begin()
        said = self.shell.run(self.world.real(line))
        if line == "sexton up":
            self.shell.run("sexton cluster topics orders --create")  # the page goes on with it
        return said


@pytest.fixture
def reader(
    request: pytest.FixtureRequest, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEXTON_DATA", str(tmp_path / "up"))
    made = Reader(request.param, built, tmp_path)
    with made.around:
        yield made


@pytest.mark.parametrize("reader", PAGES, indirect=True)
def test_a_page_does_what_it_says(reader: Reader) -> None:
    failed = []
    for block in BLOCKS:
        if block.page == reader.page:
            failed += [wrong for wrong in map(str, type_block(reader, block)) if wrong]
    assert not failed, "\n\n".join(failed)


def type_block(reader: Reader, block: Block) -> Iterator[str]:
    """What went wrong."""
    for line, shown in with_output(block):
        if why_not(line) or is_tool(line):
            continue
        said = reader.types(line)
        expected = SHOWN_FOR_ITS_ERROR.get(line)
        if said.code != expected if expected is not None else not said.fine:
            yield f"{block.where}: {line}\nexit {said.code}\n{said.stdout[-500:]}{said.stderr}"
        difference = first_difference(shown, said.stdout.splitlines())
        if difference:
            yield f"{block.where}: {line}\n{difference}\n{said.stdout}"


def test_what_is_not_run_is_listed_and_little(capsys: pytest.CaptureFixture[str]) -> None:
    typed = {line for block in ALL if block.language in SHELLS for line in lines(block)}
    for begin, why in NOT_RUN:
        left = [line for line in typed if line.startswith(begin)]
        assert left, f"no page says {begin!r} any more"
        with capsys.disabled():
            print(f"\n  not run: {begin}: {why}", end="")
    assert sum(why_not(line) is not None for line in typed) <= MOST


@pytest.mark.parametrize("reader", ["docs/faq.md"], indirect=True)
@pytest.mark.parametrize(
    "line",
    [
        "sexton audit orders -b localhost:9092 --nonsense",
        "sexton cluster topics nowhere -b localhost:9092",
        "sexton log dump LOG_DIR/orders-99",
        "false | cat",
    ],
)
def test_a_page_that_is_wrong_would_be_noticed(reader: Reader, line: str) -> None:
    block = Block("docs/faq.md:1", "sh", line)
    assert list(type_block(reader, block))


TOOLS = [
    (block.where, line)
    for block in BLOCKS
    for line in lines(block)
    if is_tool(line) and not why_not(line)
]


@pytest.mark.kafka
def test_kafkas_own_tools_do_what_is_shown(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = []
    with the_world(built, tmp_path) as world:
        shell = Shell(tmp_path, str(install(tmp_path / "tools")))
        moved = '{"version":1,"partitions":[{"topic":"orders","partition":3,"replicas":[1,2]}]}'
        (tmp_path / "away.json").write_text(moved)
        for where, line in sorted(TOOLS, key=lambda tool: "reassign" in tool[1]):  # moves come last
            said = shell.run(world.real(line))
            if said.code not in (0, 1) or "xception" in said.stdout + said.stderr:
                failed.append(f"{where}: {line}\n{said.code}\n{said.stdout}{said.stderr}")
    assert not failed, "\n\n".join(failed)
