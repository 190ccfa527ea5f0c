"""Of which leader's time was the last message before an offset?

Each message says the leader epoch in which it was written, and each commit says that of the last
message before its offset, so that whoever goes on from there can ask if that message is still in
the log (KIP-320).

    offset      0    1    2    3    4    5    6
    epoch       0    0    0  │ 2    2  │ 3    3         a commit at 5 says 2
                             └─────────┴─ who leads now: do you have all before here?

Where the epoch changes, another leader has taken over. After an unclean election it may not have
what was read from the one before: other messages stand there, or stood there and were read by
nobody. So it is asked before what it gave is handled. It is asked for what ends with the last
message that was read, and not for what is before its own first one: between them may lie what is
shown to nobody, markers and aborted records, and it may be the new leader's own.

In one log epochs never fall. Where they do, the new leader had led before and goes on with what is
left from that time: nobody need be asked to know that it lacks what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Doubt(NamedTuple):
    """Does the log have everything before `position`, the last of it in `epoch`?"""

    position: int
    epoch: int
    next_epoch: int  # of the message that came next

    @property
    def is_sure(self) -> bool:
        """It does not."""
        return self.next_epoch < self.epoch


class _Begin(NamedTuple):
    first: int  # the offset of its first message
    epoch: int
    position: int  # behind the last message of the epoch before it


class Epochs:
    """Of the messages that were taken; `epoch` is that of the last one before them."""

    def __init__(self, epoch: int = -1) -> None:
        self._begins = [_Begin(-1, epoch, -1)]  # offsets rise

    @property
    def latest(self) -> int:
        return self._begins[-1].epoch

    def before(self, position: int) -> int:
        """Of the last message before it; -1: nobody has said so."""
        return next(each.epoch for each in reversed(self._begins) if each.first < position)

    def take(self, messages: Sequence[Any], position: int) -> list[Doubt]:
        """What is to be asked before they are handled, as a rule nothing; their offsets rise.

        `position`: everything before it was taken.
        """
        if _epoch(messages[-1]) == self.latest and messages[0].offset() > self._begins[-1].first:
            return []
        doubts: list[Doubt] = []
        for message in messages:
            offset, epoch = message.offset(), _epoch(message)
            while self._begins[-1].first >= offset:  # it was put back, and comes again
                position = min(position, self._begins.pop().position)
            if epoch != self.latest:
                if self.latest >= 0 and epoch >= 0:
                    doubts.append(Doubt(position, self.latest, epoch))
                self._begins.append(_Begin(offset, epoch, position))
            position = offset + 1
        return doubts


def _epoch(message: Any) -> int:
    epoch: int | None = message.leader_epoch()
    return -1 if epoch is None else epoch
