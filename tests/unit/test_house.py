"""The rules that no tool enforces by itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

import sexton
from tools.make_file_map import LAYERS

ROOT = Path(__file__).parent.parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CORE = ("base", "records", "protocol", "machines", "audit", "node")


def contract(kind: str) -> dict[str, list[str]]:
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    found: dict[str, list[str]] = next(each for each in contracts if each["type"] == kind)
    return found


def test_every_core_package_is_kept_free_of_clocks_threads_and_sockets() -> None:
    package = Path(sexton.__file__).parent
    present = [f"sexton.{name}" for name in CORE if (package / name / "__init__.py").exists()]
    assert contract("forbidden")["source_modules"] == present


def test_the_file_map_draws_the_layers_that_are_enforced() -> None:
    drawn = [" | ".join(layer) for layer in LAYERS]
    enforced = [line.replace("(", "").replace(")", "") for line in contract("layers")["layers"]]
    assert drawn == enforced


def test_the_lock_pins_every_package_by_hash_and_names_no_index() -> None:
    for name in ("dev.txt", "uv.txt"):
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
        pins = [line for line in text.splitlines() if line[:1].isalnum()]
        assert pins
        assert all("==" in line and line.endswith("\\") for line in pins)
        assert "://" not in text
