"""One comparison: ours, a peer, what was hoped for, and whether it came true.

A ratio says how many times as fast as the peer we are, per record, so that a peer may run on a
slice of the same data. By memory it says how many times the peer's memory we take, and less is
better. A result without a goal is there to be known; a result that loses is printed like the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from benchmarks.measure import By, Measure


class Unit(StrEnum):
    """What amounts are told in; memory is always told in MiB."""

    RECORDS = "records"  # 52.1 M/s, 0.164 s
    BYTES = "bytes"  # 197 MB/s, 0.192 M/s
    EVENTS = "events"  # 210/s: each counts as a record
    PER_GB = "per GB"  # 4.1 s/GB: what a gigabyte costs
    DURATION = "duration"  # 0.8 ms: of one event


@dataclass(frozen=True, slots=True)
class TimesAsFast:
    """At least so many times as fast as the peer."""

    times: float

    def __str__(self) -> str:
        return f"≥ {self.times:.3g}×"


@dataclass(frozen=True, slots=True)
class RecordsPerSecond:
    """At least so many records a second, whatever the peer does."""

    rate: float

    def __str__(self) -> str:
        return f"≥ {self.rate / 1e6:g} M/s"


@dataclass(frozen=True, slots=True)
class AtMostSeconds:
    """No longer than this, whatever the peer does."""

    seconds: float

    def __str__(self) -> str:
        return f"≤ {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class TimesTheMemory:
    """At most so many times the peer's memory."""

    times: float

    def __str__(self) -> str:
        return f"≤ {self.times:g}×"


Goal = TimesAsFast | RecordsPerSecond | AtMostSeconds | TimesTheMemory


@dataclass(frozen=True, slots=True)
class Result:
    benchmark: str
    case: str  # what is done, to what
    by: By
    ours: Measure
    peer_name: str = ""
    peer: Measure | None = None
    goal: Goal | None = None
    unit: Unit = Unit.RECORDS

    @property
    def ratio(self) -> float | None:
        if self.peer is None:
            return None
        if self.by is By.MEMORY:
            return self.ours.peak / self.peer.peak
        return self.ours.rate(self.by) / self.peer.rate(self.by)

    @property
    def met(self) -> bool | None:
        """None: there is no goal."""
        match self.goal:
            case None:
                return None
            case RecordsPerSecond(rate):
                return self.ours.rate(self.by) >= rate
            case AtMostSeconds(seconds):
                return self.ours.seconds(self.by) <= seconds
            case TimesAsFast(times):
                assert self.ratio is not None and self.by is not By.MEMORY
                return self.ratio >= times
            case TimesTheMemory(times):
                assert self.ratio is not None and self.by is By.MEMORY
                return self.ratio <= times
