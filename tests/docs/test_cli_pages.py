"""Every command has a help with examples, and a page that says the same."""

from __future__ import annotations

import inspect
import re
import shlex
from importlib import import_module

import pytest

from sexton.cli import registry
from sexton.cli.main import build_command
from sexton.cli.registry import Entry
from tools import make_cli_reference, make_file_map

each_command = pytest.mark.parametrize(
    "entry", registry.COMMANDS, ids=[entry.path for entry in registry.COMMANDS]
)


@each_command
def test_a_help_text_opens_with_the_summary(entry: Entry) -> None:
    docstring = inspect.getdoc(import_module(entry.module).command)
    assert docstring is not None
    assert docstring.split("\n\n")[0].replace("\n", " ") == entry.summary


@each_command
def test_a_help_text_ends_with_examples_of_that_command(entry: Entry) -> None:
    examples = import_module(entry.module).EXAMPLES
    assert examples
    options = {name for param in build_command(entry).params for name in param.opts}
    for _, line in examples:
        own = line.split("|")[0]
        assert own.startswith(f"sexton {entry.path}"), line
        used = {word.split("=")[0] for word in shlex.split(own) if re.match("--?[a-zA-Z]", word)}
        assert used <= options, f"{line}: unknown options"
    last = make_cli_reference.help_text(entry.path.split()).rstrip().splitlines()[-1]
    assert last == f"    $ {examples[-1][1]}"


def test_every_option_and_argument_explains_itself() -> None:
    for entry in registry.COMMANDS:
        for param in build_command(entry).params:
            assert getattr(param, "help", None), f"sexton {entry.path}: {param.name} has no help"


def test_every_group_has_commands_and_every_command_its_group() -> None:
    used = {entry.path.split()[0] for entry in registry.COMMANDS if " " in entry.path}
    assert used == {group.name for group in registry.GROUPS}


def test_the_pages_say_what_the_commands_say() -> None:
    folder = make_cli_reference.FOLDER
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert written == make_cli_reference.pages(), "out of date: run `make docs`"


def test_the_file_map_names_every_module() -> None:
    written = make_file_map.PAGE.read_text(encoding="utf-8")
    assert written == make_file_map.page(), "out of date: run `make docs`"
