"""Wait for a condition, never for a while.

A test that sleeps is slow on a fast machine and wrong on a slow one. `until` asks again and again
until the answer is good, and gives up at a deadline with what it was waiting for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from sexton.base.errors import SextonError

Answer = TypeVar("Answer")

PAUSE_S = 0.05  # between two questions: a person does not notice, a broker does not suffer


class TimedOut(SextonError):
    """What was awaited did not happen before the deadline."""


def until(
    ask: Callable[[], Answer | None],
    what: str,
    timeout_s: float = 60.0,
    explain: Callable[[], str] = lambda: "",
) -> Answer:
    """The first answer that Python takes for true; `explain` tells why there was none.

    None, False, 0 and an empty list say that it is not so yet.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            detail = explain()
            raise TimedOut(what, f"not within {timeout_s:g} s" + (f"\n{detail}" if detail else ""))
        time.sleep(PAUSE_S)
