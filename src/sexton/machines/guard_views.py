"""How old may be what brokers say, at most?

A broker that is cut off from its controller tells what it knew before. One broker's word is
therefore no proof of anything that is good; but of two different ones we take one to be up to date.
So what both have said was true at the time when the first of the two was asked, or later:

    asked       b1 ──── b2 ──── b3 ──── b1
    known since         b1      b2      b3      the one before, if that was another broker

Where one broker alone answers, again and again, while it was everybody's turn, it has to do.
"""

from __future__ import annotations

from dataclasses import field

from sexton.base.lazy_dataclass import dataclass

NEVER = 0  # in place of a time: nobody has ever seen it
SEVERAL = 2  # looks, at different brokers


@dataclass(slots=True)
class Views:
    """Who was asked, and when."""

    known_ms: int = NEVER  # what all have said since then was so at that time, or has become so
    last_ms: int = NEVER
    last_by: str = ""
    in_a_row: int = 0  # so many looks at that broker
    asked: dict[str, int] = field(default_factory=dict)  # when each was last

    def look(self, by: str, now_ms: int, brokers: int) -> None:
        others = [at_ms for who, at_ms in self.asked.items() if who != by]
        self.in_a_row = self.in_a_row + 1 if by == self.last_by else 1
        if self.in_a_row >= max(SEVERAL, brokers):
            others.append(self.last_ms)
        self.known_ms = max(others, default=NEVER)
        self.last_by, self.asked[by], self.last_ms = by, now_ms, now_ms
