"""What a run may end with, and what it contained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    kind: str
    at_ms: int
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind} on {self.where}: {self.what}"


class Violated(Exception):
    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


@dataclass(slots=True)
class Counts:
    """What a run contained: idle hours prove nothing."""

    looks: int = 0
    records_judged: int = 0
    passes: int = 0
    superseded: int = 0
    aborted: int = 0
    tombstones_removed: int = 0
    markers_removed: int = 0
    empty_batches_removed: int = 0
    elections: int = 0
    discards: int = 0
    losses: int = 0
    minima_raised: int = 0
    promotions: int = 0
    refused_promotions: int = 0
    promotions_astray: int = 0
    store_commits: int = 0
