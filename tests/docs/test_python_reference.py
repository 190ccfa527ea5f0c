"""The pages about Python say what the code says, and have every name that other pages import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.docs.blocks import PYTHON, Block
from tools import make_python_reference
from tools.make_python_reference import OTHERS, PACKAGES, told_of
from tools.public_names import Class, Constant, Function, Public, public

# Shown for what they do once, and promised to nobody.
NOT_PROMISED = {"sexton.lab.divergences", "sexton.retry.messages"}


def test_the_pages_say_what_the_code_says() -> None:
    folder = make_python_reference.FOLDER
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert written == make_python_reference.pages(), "out of date: run `make docs`"


def imported(block: Block) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sexton"):
            yield from ((node.module or "", each.name) for each in node.names)


def missing(block: Block) -> list[str]:
    return [
        f"{module}.{name}"
        for module, name in imported(block)
        if module not in NOT_PROMISED
        and name not in OTHERS.get(module, ())
        and not (module in PACKAGES.values() and name in import_module(module).__all__)
    ]


@pytest.mark.parametrize("block", PYTHON, ids=[block.where for block in PYTHON])
def test_what_a_page_imports_is_in_the_reference(block: Block) -> None:
    assert missing(block) == []


def test_an_import_of_something_else_would_be_noticed() -> None:
    block = Block("x.md:1", "python", "from sexton.testing import EmbeddedCluster, until")
    assert missing(block) == ["sexton.testing.until"]


def without_words(what: Public) -> Iterator[str]:
    """The name itself, and the methods and properties of a class, of which nothing is said."""
    match what:
        case Function(name, _, about) if not about:
            yield name
        case Class(name, _, about) as told:
            if not about:
                yield name
            yield from (f"{name}.{each.name}" for each in told.members if not each.about)
        case Function() | Constant():
            pass


@pytest.mark.parametrize("module", [*PACKAGES.values(), *OTHERS])
def test_every_public_name_says_what_it_is(module: str) -> None:
    assert [name for each in told_of(module) for name in without_words(each)] == []


def test_a_public_name_without_words_would_be_noticed() -> None:
    silent = Function("drop", "def drop() -> None: ...", "")
    spoken = Function("take", "def take() -> int: ...", "One.")
    assert list(without_words(silent)) == ["drop"]
    assert list(without_words(spoken)) == []
    assert list(without_words(Class("Box", (), "", None, (), (silent, spoken)))) == [
        "Box",
        "Box.drop",
    ]


def test_a_method_made_of_a_coroutine_is_told_as_it_is_called() -> None:
    def kill(name: str) -> Function:
        cluster = public("sexton.testing", name)
        assert isinstance(cluster, Class)
        return next(each for each in cluster.members if each.name == "kill")

    assert kill("EmbeddedCluster").signature == "def kill(node: int) -> None: ..."
    assert kill("AsyncEmbeddedCluster").signature == "async def kill(node: int) -> None: ..."
    assert kill("EmbeddedCluster").about == kill("AsyncEmbeddedCluster").about != ""


def test_a_field_keeps_the_comment_beside_it_and_the_one_above_it() -> None:
    config = public("sexton.stores", "AppConfig")
    assert isinstance(config, Class)
    told = {each.name: (each.default, each.about) for each in config.fields}
    assert told["application_id"] == (None, "the consumer group, and part of all other names")
    early = "Memory that uncommitted work may take; then it is committed early."
    assert told["most_overlay_bytes"] == ("32 << 20", early)
