"""The page about the long search has every test that is marked for it."""

from __future__ import annotations

import re

import sexton
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs/internals/soak.md").read_text(encoding="utf-8")


def test_every_file_with_a_long_search_is_listed() -> None:
    marked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"\bmark\.soak\b", path.read_text(encoding="utf-8"))
    }
    marked.discard("tests/docs/test_soak_page.py")
    assert set(re.findall(r"^\| `(tests/[^`]+)` \|", PAGE, re.MULTILINE)) == marked


def test_the_page_has_a_budget_and_results_of_this_version() -> None:
    assert "**Budget.**" in PAGE
    rows = re.findall(r"^\| \d{4}-\d\d-\d\d \| (\S+) \| `(\S+)` \|", PAGE, re.MULTILINE)
    assert sexton.__version__ in [version for version, _part in rows]
    for _version, part in rows:
        assert (ROOT / part).is_file(), part
