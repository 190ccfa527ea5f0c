"""Every code that an inspection can report is explained, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = re.compile(r'(?:(?:say|Finding|Wrong)\(\s*|fromkeys\([^"]+)"([a-z]+(?:-[a-z]+)+)"')


def test_every_code_has_its_line_and_every_line_its_code() -> None:
    sources = [
        *(ROOT / "src/sexton/log/inspect").glob("*.py"),
        *(ROOT / "src/sexton/cli").glob("log_*.py"),
        *(ROOT / "src/sexton/cli").glob("cluster_*.py"),
    ]
    used = {code for path in sources for code in CODE.findall(path.read_text(encoding="utf-8"))}
    page = (ROOT / "docs/reference/findings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == used
