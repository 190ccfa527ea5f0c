"""Writes docs/internals/file-map.md: every module with the idea that its docstring opens with.

`make docs` runs this, and a test compares. A module whose line tells a newcomer nothing needs a
better first sentence, not a better page.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/sexton"
PAGE = ROOT / "docs/internals/file-map.md"

# As in STYLE: a package may import what stands below it, never what stands above or beside it.
LAYERS = (
    ("cli",),
    ("lab",),
    ("testing",),
    ("broker", "sim", "guard", "retry", "stores", "spark"),
    ("survey",),
    ("report",),
    ("client", "node"),
    ("machines", "log", "audit"),
    ("protocol", "records"),
    ("base",),
)

# Folders of generated modules, of which one line says enough.
FOLDED = ("protocol/messages",)

HEAD = """\
# File map

One line for each module of `src/sexton`, from the top layer down. A package imports what stands
below it, never what stands above or beside it; `make check` holds us to that. Packages beside each
other in this picture know nothing of each other:

"""


def page() -> str:
    """The whole page."""
    layers = [[name for name in layer if (PACKAGE / name).is_dir()] for layer in LAYERS]
    picture = "\n".join("    " + " | ".join(layer) for layer in layers if layer)
    sections = [_section(name) for layer in layers for name in layer]
    return "\n\n".join([HEAD + picture, *sections]) + "\n"


def _section(name: str) -> str:
    folder = PACKAGE / name
    folded = [PACKAGE / each for each in FOLDED]
    rows = [
        f"| `{path.relative_to(folder)}` | {first_sentence(path)} |"
        for path in sorted(folder.rglob("*.py"))
        if path.name != "__init__.py" and path.parent not in folded
    ]
    rows += [
        f"| `{each.relative_to(folder)}/*.py` | {first_sentence(each / '__init__.py')} |"
        for each in folded
        if each.is_relative_to(folder)
    ]
    head = f"## {name}\n\n{first_sentence(folder / '__init__.py')}\n\n"
    return head + "\n".join(["| module | its idea |", "| --- | --- |", *rows])


def first_sentence(path: Path) -> str:
    """The first paragraph of the module's docstring, on one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return paragraph.replace("|", "\\|")


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"docs: wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
