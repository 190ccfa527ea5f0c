"""The guard beside Apache Kafka itself, at timers a little longer than it needs.

One script runs on every change, the others in `make soak`: also without a guard, which is the
negative control. (With shorter timers tests/interop has that on every change.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sexton.lab import divergences
from sexton.lab.divergences import APACHE_KAFKA_OPTIONS, SCENARIOS
from sexton.machines.guard_notes import MAX_LAG, MIN_LAG
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4
from sexton.testing.waiting import until
from tests.conftest import RunSexton
from tests.guard.harness import QUICK, RunningGuard, options_of

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

# (It promises as if brokers answered quickly. On a busy machine they do not, and the client waits.)
CONFIG = replace(QUICK, interval_ms=300, request_timeout_ms=350, hold_ms=2_000, patience_ms=5_000)
RETENTION_MS = 5_000  # more than CONFIG.reaction_ms, and over long before the script gives up
OPTIONS = {"cleanup.policy": "compact", MIN_LAG: 1_000, MAX_LAG: 3_600_000}


@pytest.fixture(scope="module", params=[KAFKA_4, pytest.param(KAFKA_3_9, marks=pytest.mark.soak)])
def kafka(request: pytest.FixtureRequest) -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(request.param, 3, APACHE_KAFKA_OPTIONS)) as three:
        yield three


@pytest.fixture(autouse=True)
def longer_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CONFIG.reaction_ms < RETENTION_MS
    monkeypatch.setitem(divergences.TOPIC_OPTIONS, "delete.retention.ms", RETENTION_MS)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["tombstone-divergence", "slow-reassignment"])
def test_replicas_diverge_without_a_guard(name: str, kafka: ApacheKafka) -> None:
    outcome = SCENARIOS[name](kafka)
    assert outcome.forgotten and outcome.diverged


@pytest.mark.parametrize(
    "name",
    ["tombstone-divergence", pytest.param("slow-reassignment", marks=pytest.mark.soak)],
)
def test_a_deleted_key_stays_deleted_and_every_option_is_as_before(
    name: str, kafka: ApacheKafka
) -> None:
    keeps = f"keeps-{name}"
    kafka.create_topic(keeps, [[1, 2, 3], [2, 3, 1]], OPTIONS)
    before = options_of(kafka.bootstrap, keeps)
    with RunningGuard(kafka.bootstrap, CONFIG) as guard:
        guard.catch_up()
        outcome = SCENARIOS[name](kafka)
        assert not outcome.forgotten, outcome.story
        assert not outcome.diverged, outcome.story
        assert guard.freezes, "nothing was frozen: this proves nothing"
        until(lambda: guard.status().frozen == 0, "nothing is frozen any more")
        assert outcome.cleaned_up
    assert options_of(kafka.bootstrap, keeps) == before
    after = options_of(kafka.bootstrap, outcome.topic)
    assert (after[MIN_LAG].own, after[MAX_LAG].own) == (None, None)


class Relay:
    """A cluster at which guards come late, die and are replaced as time passes."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self._steps = 0
        self.guards: list[RunningGuard] = []

    def let_time_pass(self, ms: int) -> None:
        self._steps += 1
        if self._steps in (3, 7):  # the first pass has set the tombstone's horizon by now
            self.guards.append(RunningGuard(self._kafka.bootstrap, CONFIG).__enter__())
        if self._steps == 6:
            self.guards[0].kill()
        self._kafka.let_time_pass(ms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kafka, name)


@pytest.mark.soak
def test_a_guard_that_comes_late_and_one_that_takes_over(
    kafka: ApacheKafka, run_sexton: RunSexton
) -> None:
    relay = Relay(kafka)
    try:
        outcome = SCENARIOS["tombstone-divergence"](relay)
    finally:
        for guard in relay.guards:
            guard.kill()
    assert len(relay.guards) == 2
    assert not outcome.forgotten, outcome.story
    assert not outcome.diverged, outcome.story
    run_sexton("guard", "thaw", "--all", "--audited", "-b", kafka.bootstrap)
    after = options_of(kafka.bootstrap, outcome.topic)
    assert (after[MIN_LAG].own, after[MAX_LAG].own) == (None, None)
