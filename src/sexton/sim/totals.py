"""What all runs contained together: hours in which nothing happens prove nothing.

Whatever a run counts is added up by the name it has there, so that a new counter shows up here by
itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from sexton.sim.campaign import Finished
from sexton.sim.checks import Counts
from sexton.sim.clients import Traffic
from sexton.sim.faults import FAULTS


@dataclass(slots=True)
class Totals:
    seeds: int = 0
    failed: int = 0
    hours: float = 0.0
    events: int = 0
    cpu_s: float = 0.0
    messages_lost: int = 0
    messages_repeated: int = 0
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAULTS, 0))
    counts: Counts = field(default_factory=Counts)
    traffic: Traffic = field(default_factory=Traffic)
    violations: dict[str, int] = field(default_factory=dict)  # by kind

    def add(self, finished: Finished) -> None:
        result = finished.result
        self.seeds += 1
        self.hours += result.hours
        self.events += result.events
        self.cpu_s += finished.cpu_s
        self.messages_lost += result.messages_lost
        self.messages_repeated += result.messages_repeated
        for name, times in result.faults.items():
            self.faults[name] += times
        _add(self.counts, result.counts)
        _add(self.traffic, result.traffic)
        if result.violation is not None:
            kind = result.violation.kind
            self.failed += 1
            self.violations[kind] = self.violations.get(kind, 0) + 1

    @property
    def events_per_core_second(self) -> int:
        return round(self.events / self.cpu_s) if self.cpu_s else 0

    def happened(self) -> dict[str, int]:
        """Everything that was counted but faults, by name."""
        shown = {"messages_lost": self.messages_lost, "messages_repeated": self.messages_repeated}
        return shown | _named(self.counts) | _named(self.traffic, "client_")


def _add(total: Counts | Traffic, more: Counts | Traffic) -> None:
    for each in fields(total):
        setattr(total, each.name, getattr(total, each.name) + getattr(more, each.name))


def _named(counted: Counts | Traffic, prefix: str = "") -> dict[str, int]:
    return {prefix + each.name: getattr(counted, each.name) for each in fields(counted)}
