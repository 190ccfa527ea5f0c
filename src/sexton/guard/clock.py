"""What time is it for a guard, whose clock may neither jump nor stand still?

The wall clock is set by people and by time servers, back as well as forth: it tells when the guard
began, and no more. From there on the time since the machine was started counts. It has to go on
while the machine sleeps: to a replica that is away meanwhile it is time in which nobody guarded it.
On Linux that is CLOCK_BOOTTIME, on macOS CLOCK_MONOTONIC_RAW (which on Linux is not);
`time.monotonic` stands still as long as the machine does, on both. Elsewhere there is only that
one. A virtual machine that is paused from outside has no clock that goes on: to it no time has
passed.
"""

from __future__ import annotations

import sys
import time


def clock_that_counts_sleep(system: str) -> int | None:
    """By its number; None: there is none."""
    name = "CLOCK_MONOTONIC_RAW" if system == "darwin" else "CLOCK_BOOTTIME"
    return getattr(time, name, None)


_SINCE_BOOT = clock_that_counts_sleep(sys.platform)


def since_boot_ms() -> int:
    """Never goes back, and on while the machine sleeps, where it has such a clock."""
    if _SINCE_BOOT is None:
        return time.monotonic_ns() // 1_000_000
    return time.clock_gettime_ns(_SINCE_BOOT) // 1_000_000


class Clock:
    def __init__(self) -> None:
        self.ahead_ms = time.time_ns() // 1_000_000 - since_boot_ms()

    def now_ms(self) -> int:
        return self.ahead_ms + since_boot_ms()
