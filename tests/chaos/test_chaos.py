"""Real clients, a cluster that is being disturbed, and a judge who knows what clients were told."""

from __future__ import annotations

from random import SystemRandom

import pytest

from tests.chaos.nemesis import long_absence
from tests.chaos.run import chaos

pytestmark = pytest.mark.xdist_group("chaos")  # two at a time would only be slower

SEED, SECONDS = 2, 15.0  # with this seed brokers are killed, elected, moved, and hours pass
MINUTES = 3.0


def unbroken(seed: int, seconds: float) -> None:
    outcome = chaos(seed, seconds)
    again = f"again: .venv/bin/python -m tests.chaos.run {seed} {seconds:g}"
    assert not outcome.violations, f"{outcome}\n{again}"
    print(outcome)


def test_nothing_that_clients_were_promised_is_broken() -> None:
    unbroken(SEED, SECONDS)


@pytest.mark.soak
@pytest.mark.parametrize("_number", range(5))
def test_nothing_is_broken_for_long(_number: int) -> None:
    unbroken(SystemRandom().randrange(1_000_000), MINUTES * 60)


def test_deleted_keys_stay_deleted_though_their_tombstones_go() -> None:
    outcome = chaos(1, plan=(long_absence, long_absence))
    assert not outcome.violations, str(outcome)
    assert outcome.forgotten > 0, str(outcome)


def test_deleted_keys_return_where_each_replica_cleans_as_it_likes() -> None:
    """As in Apache Kafka: the same faults at the same timers."""
    outcome = chaos(1, compaction="independent", plan=(long_absence, long_absence))
    assert "deleted-key-lives" in outcome.kinds, str(outcome)
