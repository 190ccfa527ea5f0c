"""The page about the long search has every test that is marked for it."""

from __future__ import annotations

import re

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


def test_the_page_has_a_budget_and_a_result() -> None:
    assert "**Budget.**" in PAGE
    assert re.search(r"^\| when \| version \| took \| result \|$", PAGE, re.MULTILINE)
