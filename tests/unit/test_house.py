"""The rules that no tool enforces by itself."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import sexton
from tools.make_file_map import LAYERS

ROOT = Path(__file__).parent.parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CORE = ("base", "records", "protocol", "machines", "audit", "node")
PACKAGE = Path(sexton.__file__).parent
# Packages whose opening is a map: modules on the left, some also on the right.
MAPPED = ("audit", "broker", "cli", "guard", "lab", "log", "machines", "report", "sim", "survey")


def contract(kind: str) -> dict[str, list[str]]:
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    found: dict[str, list[str]] = next(each for each in contracts if each["type"] == kind)
    return found


def test_every_core_package_is_kept_free_of_clocks_threads_and_sockets() -> None:
    present = [f"sexton.{name}" for name in CORE if (PACKAGE / name / "__init__.py").exists()]
    assert contract("forbidden")["source_modules"] == present


def test_the_file_map_draws_the_layers_that_are_enforced() -> None:
    drawn = [" | ".join(layer) for layer in LAYERS]
    enforced = [line.replace("(", "").replace(")", "") for line in contract("layers")["layers"]]
    assert drawn == enforced


def on_the_map(opening: str) -> Iterator[str]:
    """`fold`, `*_faults`, `inspect/`: what a package's opening says is there."""
    for line in opening.splitlines():
        if line.startswith("    "):
            left, _about, *right = re.split(r"\s{2,}", line.strip())
            for column in (left, *right):
                yield from re.findall(r"(?:(?<=^)|(?<=, ))[a-z*][a-z_*]*/?(?=,|$)", column)


@pytest.mark.parametrize("package", MAPPED)
def test_what_a_package_has_on_its_map_is_there(package: str) -> None:
    folder = PACKAGE / package
    opening = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    names = list(on_the_map(opening or ""))
    assert len(names) >= 5
    for name in names:
        assert list(folder.glob(name if name.endswith("/") else f"{name}.py")), name


def test_every_name_on_a_map_is_looked_at() -> None:
    opening = """Rules.

    fold, *_rules    batches in, a digest out    key_table
    inspect/         tools
    compare          facts  ──▶ suspicions

And so on."""
    assert list(on_the_map(opening)) == ["fold", "*_rules", "key_table", "inspect/", "compare"]


def test_the_lock_pins_every_package_by_hash_and_names_no_index() -> None:
    for name in ("dev.txt", "uv.txt"):
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
        pins = [line for line in text.splitlines() if line[:1].isalnum()]
        assert pins
        assert all("==" in line and line.endswith("\\") for line in pins)
        assert "://" not in text
