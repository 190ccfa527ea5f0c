"""Lines about bad clients, but not as many as bad clients can cause.

Each thing that is wrong with a connection is worth a line; a thousand a second are worth a number.
"""

from __future__ import annotations

import logging
import time
from dataclasses import field

from sexton.base.lazy_dataclass import dataclass

MOST_PER_SECOND = 10


@dataclass(slots=True)
class Complaints:
    log: logging.Logger
    _second: int = field(default=0, repr=False)
    _said: int = field(default=0, repr=False)
    _kept_back: int = field(default=0, repr=False)

    def say(self, text: str, *about: object) -> None:
        second = int(time.monotonic())
        if second != self._second:
            if self._kept_back:
                self.log.warning("and %d more such lines", self._kept_back)
            self._second, self._said, self._kept_back = second, 0, 0
        if self._said < MOST_PER_SECOND:
            self._said += 1
            self.log.warning(text, *about)
        else:
            self._kept_back += 1
