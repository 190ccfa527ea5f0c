"""A handler that does not come back: which message is it at, and for how long by now?

Nobody can end a call from outside, and a round is committed as a whole: until it returns, nothing
else of this instance is handled, and the group, which is polled meanwhile, gives nothing of it to
others. So people are told: an error with the id of the message after a minute, and each time that
it has taken as long again; and a gauge.

The main loop looks now and then at what its workers are at. So a call that takes microseconds, as
most do, need not look at a clock.
"""

from __future__ import annotations

import logging
from time import monotonic

from sexton.machines.retry_records import TaskName
from sexton.retry.rounds import Running

SLOW_S = 60.0

At = tuple[TaskName, int]  # a message
log = logging.getLogger("sexton.retry")


class Watch:
    def __init__(self) -> None:
        self._since_s: dict[At, float] = {}  # replaced as a whole: whoever asks may be a thread
        self._told_s = 0.0  # of the longest call, how long it had taken when it was told of

    def look(self, running: Running) -> None:
        now_s, before = monotonic(), self._since_s
        self._since_s = {each: before.get(each, now_s) for each in _at(running)}
        slow = [at for at, since_s in self._since_s.items() if now_s - since_s >= SLOW_S]
        if not slow:
            self._told_s = 0.0
            return
        longest_s = now_s - min(self._since_s.values())
        if longest_s >= max(SLOW_S, 2 * self._told_s):
            self._told_s = longest_s
            _tell(slow, longest_s)

    def over(self) -> None:
        """Nothing runs any more."""
        self._since_s, self._told_s = {}, 0.0

    def seconds(self, name: TaskName) -> float:
        """For how long the longest call for this partition has run."""
        now_s = monotonic()
        taken = (now_s - since_s for (of, _), since_s in self._since_s.items() if of == name)
        return max(taken, default=0.0)


def _at(running: Running) -> list[At]:
    found = [(task.name, at) for _, task, of in running.rounds for at in sorted(of.running)]
    found += [(task.name, calm.at) for _, task, calm in running.calm if calm.at >= 0]
    return found


def _tell(slow: list[At], longest_s: float) -> None:
    name, message = slow[0]
    id_ = name.id_of(message).decode()
    more = f" and {len(slow) - 1} more" if len(slow) > 1 else ""
    about = {"id": id_, "seconds": round(longest_s)}
    text = (
        "%s%s: the handler has been at it for %d s: nothing else of this instance is handled until"
        " it returns"
    )
    log.error(text, id_, more, round(longest_s), extra=about)
