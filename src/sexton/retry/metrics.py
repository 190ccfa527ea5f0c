"""How ordered retry is doing, in Prometheus's text format.

What one wants to be woken for: `sexton_retry_oldest_lock_seconds` above an hour (somebody's key has
not moved since), `sexton_retry_dead_total` growing, `sexton_retry_paused` above 0 (so much waits
that a partition is not read any more), `sexton_retry_starting` above 0 for minutes, and
`sexton_retry_handling_seconds` above what a handler may take (all of its instance stands still).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from sexton.base.errors import ConfigError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_rounds import Outcome
from sexton.machines.retry_task import Ended
from sexton.report.prometheus import Labels, Sample, exposition

# Every metric there is: kind and meaning. docs/reference/retry.md lists the same.
METRICS: dict[str, tuple[str, str]] = {
    "sexton_retry_locked_keys": ("gauge", "Keys that wait for a message of theirs."),
    "sexton_retry_depth": ("gauge", "Messages that wait, failed or behind one that did."),
    "sexton_retry_held": ("gauge", "Of these, at their ceiling and held: an operator decides."),
    "sexton_retry_oldest_lock_seconds": ("gauge", "For how long the oldest of them has waited."),
    "sexton_retry_paused": ("gauge", "1 if a partition is not read: max_pending is reached."),
    "sexton_retry_starting": ("gauge", "1 while a partition is assigned and not ready yet."),
    "sexton_retry_barrier_seconds": ("gauge", "From assignment to ready, the last time."),
    "sexton_retry_handling_seconds": ("gauge", "How long a call of the handler has run by now."),
    "sexton_retry_attempts_total": ("counter", "Runs of the handler, by outcome."),
    "sexton_retry_redirected_total": ("counter", "Messages that were put behind a locked key."),
    "sexton_retry_dead_total": ("counter", "Dead letters."),
    "sexton_retry_reaped_total": ("counter", "Stale locks that a start has released."),
    "sexton_retry_commits_total": ("counter", "Transactions, by how they ended."),
    "sexton_retry_starts_total": ("counter", "Start-ups of partitions, by what made them needed."),
    "sexton_retry_reports_total": ("counter", "Reports of what needs attention, by code."),
}
_TOTAL = re.compile("sexton_retry_(.*)_total")
COUNTERS = tuple(found[1] for name in METRICS if (found := _TOTAL.fullmatch(name)))
# Of counters: their labels, and which values these have; none are named: there are many.
LABELS: dict[str, dict[str, tuple[str, ...]]] = {
    "attempts": {"outcome": tuple(each.value for each in Outcome)},
    "commits": {"ended": ("committed", *get_args(Ended))},
    "starts": {
        "why": ("assigned", "asked", "failed start", "went back", "new leader", *get_args(Ended))
    },
    "reports": {"code": ()},
}


@dataclass(frozen=True, slots=True)
class Standing:
    """One partition of this instance, as it is now."""

    partition: int
    ready: bool
    paused: bool = False
    locked_keys: int = 0
    depth: int = 0
    held: int = 0
    oldest_s: float = 0.0
    barrier_s: float = 0.0
    position: int = -1  # of the main topic: what is below it was taken
    handling_s: float = 0.0  # the longest call of the handler that runs now, if it takes a second


class Counters:
    """Counted by the main loop, read by whoever asks."""

    def __init__(self, topic: str, group: str) -> None:
        self._labels: Labels = (("topic", topic), ("group", group))
        self._counts: Counter[tuple[str, Labels]] = Counter()

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        if amount:
            self._counts[f"sexton_retry_{name}_total", tuple(labels.items())] += amount

    def value(self, name: str, **labels: str) -> int:
        """The sum of all that have these labels; what can never be counted is not 0."""
        metric = f"sexton_retry_{name}_total"
        if metric not in METRICS:
            raise ConfigError(name, "there is no such counter", f"there are {', '.join(COUNTERS)}")
        _check_labels(name, labels)
        asked = set(labels.items())
        counts = list(self._counts.items())  # at once: the main loop goes on counting
        return sum(amount for (of, told), amount in counts if of == metric and asked.issubset(told))

    def text(self, standings: Iterable[Standing]) -> str:
        return exposition(METRICS, self._samples(standings))

    def _samples(self, standings: Iterable[Standing]) -> Iterator[Sample]:
        for at in standings:
            labels = (*self._labels, ("partition", at.partition))
            yield "sexton_retry_locked_keys", labels, at.locked_keys
            yield "sexton_retry_depth", labels, at.depth
            yield "sexton_retry_held", labels, at.held
            yield "sexton_retry_oldest_lock_seconds", labels, round(at.oldest_s, 3)
            yield "sexton_retry_paused", labels, float(at.paused)
            yield "sexton_retry_starting", labels, float(not at.ready)
            yield "sexton_retry_barrier_seconds", labels, round(at.barrier_s, 3)
            yield "sexton_retry_handling_seconds", labels, round(at.handling_s, 3)
        for (name, labels), amount in sorted(self._counts.items()):
            yield name, (*self._labels, *labels), amount


def _check_labels(name: str, labels: Mapping[str, str]) -> None:
    known = LABELS.get(name, {})
    for label, value in labels.items():
        if label not in known:
            hint = f"there is {', '.join(known)}" if known else "it has none"
            raise ConfigError(name, f"has no label {label!r}", hint)
        if known[label] and value not in known[label]:
            hint = f"there is {', '.join(known[label])}"
            raise ConfigError(name, f"has no {label} {value!r}", hint)
