"""Every block of code in README.md and docs/ says something that exists.

Some pages have tests of their own that run what they show. This one looks at all of them: each
`sexton ...` in a block for a shell is a command with options it has, and each Python block compiles
and imports from sexton what is there.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from sexton.cli.main import build

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SHELLS = ("console", "sh", "bash", "shell")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)")


@dataclass(frozen=True, slots=True)
class Block:
    where: str
    language: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    language, first, lines = None, 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if fence and language is None:
            language, first, lines = fence["language"], number, []
            indent = len(fence["indent"])
        elif fence:
            yield Block(f"{page.relative_to(ROOT)}:{first}", language or "", "\n".join(lines))
            language = None
        else:
            lines.append(line[indent:] if language is not None else "")


def commands(block: Block) -> Iterator[list[str]]:
    """The arguments of each `sexton` in it."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue  # what it prints
        words = shlex.split(line.removeprefix("$ "), comments=True)
        for at, word in enumerate(words):
            if "--nonsense" in words:
                break  # shown for its error
            if word.endswith("sexton") and (at == 0 or words[at - 1] in ("|", "&&", ";", "exec")):
                yield _up_to_the_shell(words[at + 1 :])


def _up_to_the_shell(words: list[str]) -> list[str]:
    ends = ("|", "&&", ";", "&", "||")
    for at, word in enumerate(words):
        if word in ends or word.startswith((">", "2>", "<")):
            return words[:at]
    return words


ALL = [block for page in PAGES for block in blocks(page)]
SHOWN = [
    (block.where, words) for block in ALL if block.language in SHELLS for words in commands(block)
]
PYTHON = [block for block in ALL if block.language in ("python", "py")]


def test_there_is_something_to_look_at() -> None:
    assert len(SHOWN) > 80
    assert len(PYTHON) > 20


@pytest.mark.parametrize(("where", "words"), SHOWN, ids=[f"{at} {' '.join(w)}" for at, w in SHOWN])
def test_a_command_has_the_options_it_is_shown_with(where: str, words: list[str]) -> None:
    del where
    command, context = build(), None
    while hasattr(command, "resolve_command"):
        if not words or words[0] in ("--help", "--version", "--install-completion"):
            return
        context = command.make_context(
            "sexton", list(words), parent=context, resilient_parsing=True
        )
        _, found, _ = command.resolve_command(context, list(words))
        assert found is not None, words[0]
        command, words = found, words[1:]
    if "--help" not in words:
        command.make_context("sexton", list(words), parent=context)


@pytest.mark.parametrize("block", PYTHON, ids=[block.where for block in PYTHON])
def test_python_imports_what_there_is(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sexton"):
            module = import_module(node.module or "")
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("sexton"):
                    import_module(alias.name)
