"""Every block of code in README.md and docs/ says something that exists.

`test_every_block.py` runs what can be run. This one looks at all of them: each
`sexton ...` in a block for a shell is a command with options it has, and each Python block compiles
and imports from sexton what is there.
"""

from __future__ import annotations

import ast
from importlib import import_module

import pytest

from sexton.cli.main import build
from tests.docs.blocks import ALL, PYTHON, SHELLS, Block, commands

SHOWN = [
    (block.where, words) for block in ALL if block.language in SHELLS for words in commands(block)
]


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
