"""The page about the chaos run lists every violation and planted mistake, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chaos.plants import HUNTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/internals/chaos.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, str]:
    section = next(part for part in PAGE.split("\n## ") if part.startswith(heading))
    return dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", section, re.MULTILINE))


def test_every_kind_of_violation_is_explained() -> None:
    raised = re.compile(r'Violation\(\s*"([a-z-]+)"')
    sources = [ROOT / "tests/chaos" / name for name in ("checker.py", "copying.py", "run.py")]
    kinds = {kind for path in sources for kind in raised.findall(path.read_text("utf-8"))}
    assert set(rows("What is checked")) == kinds


def test_every_planted_mistake_is_on_the_page() -> None:
    told = {
        name: f"{hunt.plant.__doc__} | {', '.join(f'`{kind}`' for kind in sorted(hunt.finds))}"
        for name, hunt in HUNTS.items()
    }
    assert rows("What the checks are worth") == told
