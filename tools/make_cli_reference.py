"""Writes docs/reference/cli/ from the commands themselves: each page is what `--help` says.

`make docs` runs this, and a test compares, so that no page can say what the program does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sexton.cli import registry
from sexton.cli.main import build
from tools.page_folder import write_folder

FOLDER = Path(__file__).parent.parent / "docs/reference/cli"
WIDTH = 80

INDEX = """\
# Commands

Each command shows this help itself, with `--help`. All of them take `--format
table|json|jsonl|tsv`, and all exit with the same codes: see [output and exit codes](../output.md).

"""


def pages() -> dict[str, str]:
    """File name to text, of everything in the folder."""
    texts = {"index.md": INDEX + _list() + _block([])}
    for entry in registry.COMMANDS:
        words = entry.path.split()
        texts[page_name(entry.path)] = f"# sexton {entry.path}\n\n{_block(words)}"
    return texts


def page_name(path: str) -> str:
    """The page of the command that one types as `path`."""
    return path.replace(" ", "-") + ".md"


def _list() -> str:
    rows = [
        f"| [`sexton {entry.path}`]({page_name(entry.path)}) | {entry.summary} |"
        for entry in registry.COMMANDS
    ]
    return "\n".join(["| command | what it does |", "| --- | --- |", *rows]) + "\n\n"


def _block(words: list[str]) -> str:
    return f"```text\n{help_text(words).rstrip()}\n```\n"


def help_text(words: list[str]) -> str:
    """What `sexton WORDS --help` prints on a terminal of 80 columns."""
    command: Any = build()
    context = command.make_context("sexton", [], resilient_parsing=True, terminal_width=WIDTH)
    for word in words:
        command = command.get_command(context, word)
        context = command.make_context(word, [], parent=context, resilient_parsing=True)
    text = command.get_help(context)
    assert isinstance(text, str)
    return text


def main() -> None:
    write_folder(FOLDER, pages())


if __name__ == "__main__":
    main()
