"""Several scenarios on one cluster, in one outage: broker 3 goes and comes back once for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sexton.lab.divergences import (
    Scenario,
    aborted_as_committed,
    committed_as_aborted,
    stuck_partition,
    tombstone_divergence,
)
from sexton.lab.stage import Outcome, Pace

OUTAGES = (tombstone_divergence, aborted_as_committed, committed_as_aborted, stuck_partition)
PATIENCE_S = 240.0


class OneOutage:
    """Any cluster. Who kills or restarts a broker waits until everybody does."""

    def __init__(self, cluster: Any, parties: int) -> None:
        self._cluster = cluster
        self._meeting = threading.Barrier(parties, timeout=PATIENCE_S)

    def kill(self, node: int) -> None:
        self.once(lambda: self._cluster.kill(node))

    def restart(self, node: int) -> None:
        self.once(lambda: self._cluster.restart(node))

    def once(self, act: Callable[[], object]) -> None:
        """When all have come, one does it, and then all go on."""
        if self._meeting.wait() == 0:
            try:
                act()
            except BaseException:
                self._meeting.abort()
                raise
        self._meeting.wait()

    def give_up(self) -> None:
        """One of them has failed, and nobody is to wait for it."""
        self._meeting.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def played_together(
    cluster: Any,
    pace: Pace,
    scenarios: Sequence[Scenario] = OUTAGES,
    look: Callable[[], object] = lambda: None,
) -> list[Outcome]:
    """What comes of each; `look` is called when all are back and anything can be seen."""
    outage = OneOutage(cluster, len(scenarios))

    def play(scenario: Scenario) -> Outcome:
        try:
            return scenario(outage, lambda _topic: outage.once(look), pace=pace)
        except BaseException:
            outage.give_up()
            raise

    with ThreadPoolExecutor(len(scenarios)) as several:
        running = [several.submit(play, each) for each in scenarios]
    failures = [error for each in running if (error := each.exception()) is not None]
    for failure in _worst_first(failures):
        raise failure
    return [each.result() for each in running]


def _worst_first(failures: Iterable[BaseException]) -> list[BaseException]:
    """That somebody was not waited for is not the cause."""
    return sorted(failures, key=lambda each: isinstance(each, threading.BrokenBarrierError))
