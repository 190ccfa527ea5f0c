"""Guards and brokers are killed by SIGKILL, and no option is lost; see `chaos`."""

from __future__ import annotations

from random import SystemRandom

import pytest

from tests.guard.chaos import Outcome, chaos, kafka_or_embedded

SEED, SECONDS = 2, 15.0
SOON_S = 10.0  # in place of a minute: what a guard without notes does not do now it never does
MINUTES = 3.0


def unbroken(seed: int, seconds: float, *, kafka: bool = False) -> Outcome:
    with kafka_or_embedded(kafka) as cluster:
        outcome = chaos(seed, seconds, cluster)
    again = f"again: python -m tests.guard.chaos {seed} {seconds:g}{' kafka' if kafka else ''}"
    assert not outcome.violations, f"{outcome}\n{again}"
    print(outcome)
    return outcome


@pytest.mark.xdist_group("chaos")
def test_guards_and_brokers_are_killed_and_every_option_is_as_before() -> None:
    happened = unbroken(SEED, SECONDS).happened
    # Runs in which nothing happens would prove nothing.
    for what in ("absences judged", "brokers killed", "guards killed", "looks"):
        assert happened[what], happened


@pytest.mark.soak
@pytest.mark.parametrize("_number", range(3))
def test_the_same_for_long(_number: int) -> None:
    unbroken(SystemRandom().randrange(1_000_000), MINUTES * 60)


@pytest.mark.soak
@pytest.mark.kafka
def test_the_same_on_apache_kafka() -> None:
    unbroken(SystemRandom().randrange(1_000_000), MINUTES * 60, kafka=True)


@pytest.mark.xdist_group("chaos")
def test_a_guard_that_keeps_its_notes_to_itself_is_found_out() -> None:
    """The negative control: what was set is known to no other guard when this one is killed."""
    with kafka_or_embedded(kafka=False) as cluster:
        outcome = chaos(SEED, SECONDS, cluster, forgetful=True, calm_s=SOON_S)
    (violation,) = outcome.violations
    assert "is as it was" in violation or "is free when all is well" in violation, outcome
    assert "9223372036854775807" in violation
