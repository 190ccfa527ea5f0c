"""Reading no faster than we are allowed to: a bucket of bytes for each broker.

    max_bytes_per_s ──fills──▶ [ bytes we may read ] ◀──takes── every answer with records

How large an answer is, one knows when it is there. So a reader asks while the bucket is not in
debt, and pays afterwards; whoever comes next waits until the debt is filled up. Over any time the
bytes read are at most the allowed rate, one second of it saved up, and the answers under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from sexton.base.errors import ConfigError


class ReadQuota:
    """What may be read from one broker; shared by all that read from it in this process."""

    def __init__(self, max_bytes_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        if max_bytes_per_s <= 0:
            raise ConfigError("max_bytes_per_s", f"is {max_bytes_per_s:g}", "leave it out for none")
        self._rate = max_bytes_per_s
        self._clock = clock
        self._saved = max_bytes_per_s  # one second's worth; below zero: a debt
        self._seen_s = clock()

    def owes_s(self) -> float:
        """How long to wait before the next request."""
        now_s = self._clock()
        self._saved = min(self._saved + (now_s - self._seen_s) * self._rate, self._rate)
        self._seen_s = now_s
        return max(0.0, -self._saved / self._rate)

    def pay(self, size: int) -> None:
        self._saved -= size

    async def wait(self) -> None:
        owed_s = self.owes_s()
        while owed_s > 0:  # others pay meanwhile, too
            await asyncio.sleep(owed_s)
            owed_s = self.owes_s()
