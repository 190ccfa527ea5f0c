"""The simulator's page lists every fault and every violation, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from sexton.sim.faults import FAULTS, describe

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/simulator.md").read_text(encoding="utf-8")


def listed(heading: str) -> dict[str, str]:
    """The rows of the table under a heading: code, and the cell after it."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(heading))
    return dict(re.findall(r"^\| `([a-z-]+)` \| (.+?) \|", text, re.MULTILINE))


def test_every_kind_of_fault_is_on_the_page_in_its_own_words() -> None:
    assert listed("Faults") == {name: describe(name) for name in FAULTS}


def test_every_kind_of_violation_is_explained() -> None:
    raised = re.compile(r'(?:fail|Violation)\(\s*"([a-z-]+)"')
    sources = (ROOT / "src/sexton/sim").glob("*.py")
    kinds = {kind for path in sources for kind in raised.findall(path.read_text("utf-8"))}
    assert set(listed("Violations")) == kinds
