"""A promise names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_is_named_exists() -> None:
    page = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[^`]+)`", page)
    assert len(named) > 10
    assert not [name for name in named if not (ROOT / name).exists()]
