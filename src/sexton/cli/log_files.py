"""What the `log` commands share: their PATH argument, and how they speak about files.

A path that does not exist is the user's mistake and ends with exit code 2, but only after the other
paths have been looked at. If they had findings, these decide: damage is worth more than a typo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.findings import Finding
from sexton.cli.failures import is_lively
from sexton.cli.output import Output

if TYPE_CHECKING:
    from sexton.log.inspect.paths import Found

PathsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH",
        help="Segment files, partition directories, or data directories (log.dirs).",
        readable=False,  # one that is not must not keep us from the others
    ),
]


@contextmanager
def look_at(out: Output, paths: Sequence[Path]) -> Iterator[Found]:
    """Finds what the paths stand for; after the work, says which of them were wrong."""
    from sexton.log.inspect.paths import find

    found = find(paths)
    for path, why in found.left_out:
        out.finding(Finding("directory-left-out", "note", path, f"not looked at: {why}"))
    for path, why in found.unreadable:
        out.incomplete(path, why)
    yield found
    if not found.wrong:
        return
    found_something = bool(out.counts["error"] or out.counts["warning"])
    for error in found.wrong if found_something else found.wrong[1:]:
        out.skipped(error)
    if not found_something:
        raise found.wrong[0]


@contextmanager
def holding_findings(out: Output) -> Iterator[Callable[[Finding], None]]:
    """Findings at once if nobody watches a bar, else after it: they would print into each other."""
    if not is_lively(out.stderr):
        yield out.finding
        return
    held: list[Finding] = []
    try:
        yield held.append
    finally:
        for finding in held:
            out.finding(finding)
