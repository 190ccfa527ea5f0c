"""The simulator's page lists every fault, violation and planted mistake, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from sexton.sim.faults import FAULTS, describe
from tests.simulation.planted.planting import wrong
from tests.simulation.planted.recipes import HUNTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/simulator.md").read_text(encoding="utf-8")


def listed(heading: str) -> dict[str, list[str]]:
    """The rows of the tables under a heading: code, and the cells after it."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(heading))
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", text, re.MULTILINE)
    return {code: cells.split(" | ") for code, cells in rows}


def test_every_kind_of_fault_is_on_the_page_in_its_own_words() -> None:
    assert listed("Faults") == {name: [describe(name)] for name in FAULTS}


def test_every_kind_of_violation_is_explained() -> None:
    raised = re.compile(r'(?:fail|Violation)\(\s*"([a-z-]+)"')
    sources = (ROOT / "src/sexton/sim").glob("*.py")
    kinds = {kind for path in sources for kind in raised.findall(path.read_text("utf-8"))}
    assert set(listed("Violations")) == kinds


def test_every_planted_mistake_is_on_the_page_with_what_is_promised_of_it() -> None:
    promised = {
        name: [wrong(name), ", ".join(f"`{kind}`" for kind in hunt.kinds), str(hunt.seeds)]
        for name, hunt in HUNTS.items()
    }
    assert listed("What the checks are worth") == promised
