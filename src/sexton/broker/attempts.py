"""How fast may somebody guess passwords?

A failure is told late, and later with each one of the last minute; whoever is right is let in at
once. An address may fail so many times within some seconds, whether or not it waits to hear of it;
after that nobody looks at what it says. It is hung up on without an answer: clients take that for a
broken connection and come again, while a refusal would make them give up, and an address may be
shared with somebody who only has a wrong password in a file.

So one address costs us at most ten checks a second, whatever it does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field

from sexton.base.lazy_dataclass import dataclass

REMEMBERED_S = 60.0
LONGEST_DELAY_S = 5.0
MOST_FAILURES = 50  # of one address
WITHIN_S = 5.0


@dataclass(slots=True)
class Attempts:
    first_delay_s: float = 0.1  # it doubles
    _failures: dict[str, deque[float]] = field(default_factory=dict)

    def may_try(self, address: str, now: float) -> bool:
        failures = self._recent(address, now)
        return len(failures) < MOST_FAILURES or now - failures[0] > WITHIN_S

    def failed(self, address: str, now: float) -> float:
        """How many seconds later it is told."""
        failures = self._recent(address, now)
        failures.append(now)
        self._failures[address] = failures
        doubled = self.first_delay_s * float(1 << min(len(failures) - 1, 16))
        return min(doubled, max(LONGEST_DELAY_S, self.first_delay_s))

    def forget(self, now: float) -> None:
        """What is too long ago, of everybody."""
        for address in list(self._failures):
            if not self._recent(address, now):
                del self._failures[address]

    def _recent(self, address: str, now: float) -> deque[float]:
        failures = self._failures.get(address) or deque(maxlen=MOST_FAILURES)
        while failures and now - failures[0] > REMEMBERED_S:
            failures.popleft()
        return failures
