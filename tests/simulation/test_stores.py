"""State stores under random faults: never stale; with either old mistake put back, it is found.

One seed in which somebody is promoted a minute after it came back; docs/reference/simulator.md
tells of it.
"""

from __future__ import annotations

import pytest

from sexton.sim.replay import Replay, replay_options
from sexton.sim.shrinking import WorkOnly, attempt

FAULTS = "killed-instance,paused-instance,closed-instance"
SETTINGS = ("fault_lasts_ms=1800000", "stores=3")


@pytest.mark.parametrize(
    ("mistake", "found", "words"),
    [
        (
            "trust_local_checkpoint=true",
            "stale-store",
            "k0 is nothing in its store and 5 in counts-changelog-0",
        ),
        (
            "offsets_applied_late_ms=900000",
            "offset-went-back",
            "the group had committed 341 of orders-0 and it is told 299",
        ),
    ],
)
def test_both_halves_of_the_report_come_about_by_themselves(
    mistake: str, found: str, words: str
) -> None:
    options = replay_options(1, 5, "coordinated", FAULTS, (*SETTINGS, mistake))
    failure = attempt(Replay(options), True)
    assert failure is not None
    assert (failure.violation.kind, failure.violation.what) == (found, words)
    assert failure.violation.where == "instance B, task 0"


def test_without_them_the_same_seed_finds_nothing() -> None:
    result = WorkOnly(replay_options(1, 5, "coordinated", FAULTS, SETTINGS)).go()
    assert result.violation is None, result.violation
    assert result.counts.promotions >= 3
    assert result.counts.store_commits >= 5
