"""The same trouble, met again five times a second, is worth a line every now and then."""

from __future__ import annotations

import time

AGAIN_S = 10.0


class Repeats:
    def __init__(self) -> None:
        self._why, self._since_s = "", 0.0

    def is_news(self, why: str) -> bool:
        """Whether it is to be said: it is another trouble, or was last said a while ago."""
        now_s = time.monotonic()
        if why == self._why and now_s - self._since_s < AGAIN_S:
            return False
        self._why, self._since_s = why, now_s
        return True
