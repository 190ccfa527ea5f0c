"""How an instance is doing: what it counts, and how far a restore is."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

_KEPT = 1000  # latencies to take a percentile of


@dataclass(slots=True)
class Progress:
    """A restore: how far, how fast, how long still."""

    start: int
    end: int
    position: int = -1
    size_bytes: int = 0
    records: int = 0
    began_s: float = field(default_factory=time.monotonic)

    def add(self, size_bytes: int, records: int, position: int) -> None:
        self.size_bytes += size_bytes
        self.records += records
        self.position = position

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self.began_s, 1e-6)

    @property
    def bytes_per_s(self) -> float:
        return self.size_bytes / self.seconds

    @property
    def done(self) -> float:
        """From 0 to 1, by offsets: how many bytes are left nobody knows."""
        whole = self.end - self.start
        return 1.0 if whole <= 0 else min(1.0, max(0, self.position - self.start) / whole)

    @property
    def seconds_left(self) -> float | None:
        done = self.done
        return None if done <= 0 else self.seconds * (1 - done) / done

    def __str__(self) -> str:
        left = self.seconds_left
        eta = "?" if left is None else f"{left:.0f} s"
        return (
            f"{self.done:.0%}, {self.size_bytes / 1e6:.1f} MB"
            f" at {self.bytes_per_s / 1e6:.1f} MB/s, {eta} left"
        )


@dataclass(slots=True)
class Numbers:
    processed: int = 0
    commits: int = 0
    promotions: int = 0
    refused_promotions: int = 0
    wiped: int = 0
    restored_records: int = 0  # read from changelogs by promotions
    restored_bytes: int = 0
    commit_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    promotion_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    commit_seconds_sum: float = 0.0

    def committed(self, seconds: float) -> None:
        self.commits += 1
        self.commit_seconds_sum += seconds
        self.commit_seconds.append(seconds)

    def promoted(self, seconds: float) -> None:
        self.promotions += 1
        self.promotion_seconds.append(seconds)


def percentile(values: deque[float], part: float) -> float:
    """0 if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0
