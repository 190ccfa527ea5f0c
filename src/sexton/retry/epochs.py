"""Of which leader's time was the last message before an offset?

Each message says the leader epoch in which it was written, and each commit says that of the last
message before its offset, so that whoever goes on from there can ask if that message is still in
the log (KIP-320).

    offset      0    1    2    3    4    5    6
    epoch       0    0    0  │ 2    2  │ 3    3         a commit at 5 says 2
                             └─────────┴─ who leads now: do you have all before here?

Where the epoch changes, another leader has taken over. After an unclean election it may not have
what was read from the one before: other messages stand there, or stood there and were read by
nobody. So it is asked before what it gave is handled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Doubt(NamedTuple):
    """Does the log have everything before `position`, the last of it in `epoch`?"""

    position: int
    epoch: int


class Epochs:
    """Of the messages that were taken; `epoch` is that of the last one before them."""

    def __init__(self, epoch: int = -1) -> None:
        self._begins = [(-1, epoch)]  # offset, epoch: offsets rise

    @property
    def latest(self) -> int:
        return self._begins[-1][1]

    def before(self, position: int) -> int:
        """Of the last message before it; -1: nobody has said so."""
        return next(epoch for first, epoch in reversed(self._begins) if first < position)

    def take(self, messages: Sequence[Any]) -> list[Doubt]:
        """What is to be asked before they are handled, as a rule nothing; their offsets rise."""
        if _epoch(messages[-1]) == self.latest and messages[0].offset() > self._begins[-1][0]:
            return []
        doubts: list[Doubt] = []
        for message in messages:
            offset, epoch = message.offset(), _epoch(message)
            while self._begins[-1][0] >= offset:
                self._begins.pop()  # it was put back, and comes again
            if epoch != self.latest:
                if 0 <= self.latest < epoch:
                    doubts.append(Doubt(offset, self.latest))
                self._begins.append((offset, epoch))
        return doubts


def _epoch(message: Any) -> int:
    epoch: int | None = message.leader_epoch()
    return -1 if epoch is None else epoch
