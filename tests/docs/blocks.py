"""The blocks of code in README.md and docs/, and what each of them would run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SHELLS = ("console", "sh", "bash", "shell")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)")


@dataclass(frozen=True, slots=True)
class Block:
    where: str
    language: str
    text: str

    @property
    def page(self) -> str:
        return self.where.partition(":")[0]


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
PYTHON = [
    block
    for block in ALL
    if block.language in ("python", "py") and not block.where.startswith("docs/reference/python/")
]
