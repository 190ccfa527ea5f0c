"""Sentences for people, folded to the width of a terminal.

A command between backticks stays in one piece, and so does a line that is indented: both are there
to be copied, and a terminal breaks such a line without putting a newline into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap

from sexton.report.tables import one_line

_COMMAND = re.compile(r"`[^`]*`")
_HELD = "\xa0"  # a space at which no line is broken


def harmless(text: str) -> str:
    """No terminal is steered by it: an id or a key in a sentence may hold any characters."""
    return "\n".join(map(one_line, text.expandtabs(4).split("\n")))


def folded(text: str, width: int) -> Iterator[str]:
    """The lines of a text, none longer than that if it can be helped."""
    for line in text.split("\n"):
        if len(line) <= width or line.startswith(" "):
            yield line
        else:
            yield from _folded(line, width)


def _folded(line: str, width: int) -> Iterator[str]:
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", _HELD), line)
    for part in wrap(whole, width, break_long_words=False, break_on_hyphens=False):
        yield part.replace(_HELD, " ")
