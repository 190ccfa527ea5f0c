"""Is what a page shows what a command printed?

Line by line, in order; a run of digits stands for any digits, runs of blanks are one blank, and a
line `...` for any number of lines.
"""

from __future__ import annotations

import re


def first_difference(shown: tuple[str, ...], printed: list[str]) -> str | None:
    """The first shown line that did not come where it should, or None."""
    at = 0
    skipping = False
    for line in shown:
        if line.strip() == "...":
            skipping = True
            continue
        if skipping:
            while at < len(printed) and normal(printed[at]) != normal(line):
                at += 1
            skipping = False
        if at >= len(printed) or normal(printed[at]) != normal(line):
            return f"shown but not printed: {line}"
        at += 1
    if shown and not skipping and any(line.strip() for line in printed[at:]):
        return f"printed but not shown: {printed[at]}"
    return None


def normal(line: str) -> str:
    return " ".join(re.sub(r"\d+", "0", line).split())
