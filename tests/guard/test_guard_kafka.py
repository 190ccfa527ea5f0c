"""The guard beside Apache Kafka itself: what diverges without it does not with it.

Timers are a little longer than the guard needs, and the same without a guard, which is the negative
control. Four ways to diverge are played in one outage, so that it costs one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sexton.cli.main import main
from sexton.lab import divergences
from sexton.lab.divergences import slow_reassignment, stuck_partition, tombstone_divergence
from sexton.lab.guarding import (
    QUICK,
    RETENTION_MS,
    GuardedCluster,
    RunningGuard,
    TopicOptions,
    guarded,
    options_of,
    slower,
)
from sexton.lab.looking import replica_logs
from sexton.lab.performing import perform
from sexton.lab.places import Place, open_place
from sexton.lab.stage import gone
from sexton.machines.guard_notes import MAX_LAG, MIN_LAG
from sexton.survey.runner import LocalRunner
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4
from sexton.testing.waiting import until
from tests.guard.together import played_together

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

PACE = slower(divergences.QUICK)
ALONE_PACE = replace(PACE, most_steps=2 * PACE.most_steps)  # it ends when all is forgotten
# A guard that is late, on a machine that is busy say, has to be there before a horizon that was set
# without it.
LATE_MS = 12_000
LATE_PACE = replace(
    PACE,
    topic_options={**PACE.topic_options, "delete.retention.ms": LATE_MS},
    most_steps=2 * LATE_MS // PACE.step_ms,
)
OPTIONS = {"cleanup.policy": "compact", MIN_LAG: 1_000, MAX_LAG: 3_600_000}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Place]:
    with open_place(f"kafka={KAFKA_4}", None, LocalRunner()) as place:
        yield place


def test_four_ways_to_diverge_in_one_outage_and_none_with_a_guard(kafka: Place) -> None:
    assert QUICK.reaction_ms < RETENTION_MS
    with RunningGuard(kafka.cluster.bootstrap_servers) as guard:
        guard.catch_up()
        beside = GuardedCluster(kafka.cluster, guard, clock_is_moved=False)
        beside.create_topic("keeps", [[1, 2, 3], [2, 3, 1]], OPTIONS)
        for outcome in played_together(beside, LATE_PACE):
            assert not outcome.forgotten, outcome.story
            assert not outcome.diverged, outcome.story
            assert outcome.cleaned_up, outcome.story
        frozen = {deed.topic for deed in guard.news() if deed.what == "froze"}
        assert beside.before.keys() <= frozen
        for topic in beside.before:
            assert beside.changed_options(topic) == []


@pytest.mark.soak
def test_the_same_four_diverge_without_a_guard(kafka: Place) -> None:
    for outcome in played_together(kafka.cluster, ALONE_PACE):
        assert outcome.forgotten and outcome.diverged, outcome.story


class Relay:
    """A cluster at which a guard comes late, dies and is replaced by another as time passes.

    The first one comes when every topic has been cleaned once, and so the time of every tombstone
    and marker has begun to run.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._turn = threading.RLock()
        self._steps = 0
        self._away = False
        self.before: dict[str, TopicOptions] = {}
        self.guards: list[RunningGuard] = []

    def create_topic(self, topic: str, *more: Any) -> None:
        self._cluster.create_topic(topic, *more)
        self.before[topic] = options_of(self._cluster.bootstrap_servers, topic)

    def kill(self, node: int) -> None:
        self._cluster.kill(node)
        self._away = True

    def let_time_pass(self, ms: int) -> None:
        with self._turn:
            self._next_guard()
        self._cluster.let_time_pass(ms)

    def _next_guard(self) -> None:
        if not self._away or len(self.guards) == 2:
            return
        if not self.guards:
            if all(map(self._is_cleaned, self.before)):
                self.guards.append(self._running())
                self.guards[0].catch_up()
            return
        self._steps += 1
        if self._steps == 4 * len(self.before):
            self.guards[0].kill()
        elif self._steps == 8 * len(self.before):
            self.guards.append(self._running())

    def _running(self) -> RunningGuard:
        return RunningGuard(self._cluster.bootstrap_servers).__enter__()

    def _is_cleaned(self, topic: str) -> bool:
        """The first record has been aborted, or another has taken its place."""
        return gone(replica_logs(self._cluster.bootstrap_servers, topic)[1], 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def test_a_guard_that_comes_late_and_one_that_takes_over(kafka: Place) -> None:
    servers = kafka.cluster.bootstrap_servers
    relay = Relay(kafka.cluster)

    def audited() -> None:
        """Nobody knows how long broker 3 was away before the guard came: somebody has to look."""
        doubts = {topic.topic: topic.doubts for topic in relay.guards[1].status().topics}
        assert all(doubts[topic] == 1 for topic in relay.before), doubts
        main(["guard", "thaw", "--all", "--audited", "-b", servers])

    try:
        outcomes = played_together(relay, LATE_PACE, look=audited)
        until(lambda: not relay.guards[1].status().frozen, "nothing is frozen any more")
    finally:
        for guard in relay.guards:
            guard.kill()
    for outcome in outcomes:
        assert not outcome.forgotten, outcome.story
        assert not outcome.diverged, outcome.story
        assert outcome.cleaned_up, outcome.story
    for topic, before in relay.before.items():
        assert options_of(servers, topic) == before


def test_a_replica_that_is_added_slowly_misses_nothing(kafka: Place) -> None:
    with guarded(kafka) as place:
        ending = perform(slow_reassignment, place)
    assert ending.surprises == []
    assert not ending.outcome.forgotten
    assert ending.outcome.cleaned_up


@pytest.mark.soak
def test_it_misses_a_tombstone_without_a_guard(kafka: Place) -> None:
    outcome = slow_reassignment(kafka.cluster, pace=ALONE_PACE)
    assert outcome.forgotten and outcome.diverged, outcome.story


class Named(frozenset[str]):
    """All topics whose names begin so."""

    def __contains__(self, name: object) -> bool:
        return any(str(name).startswith(prefix) for prefix in self)


def test_on_kafka_3_9_those_it_looks_at_agree_and_the_others_diverge() -> None:
    """All in the same outage."""
    both = (tombstone_divergence, stuck_partition)
    looked_at = [replace(each, name=f"guarded-{each.name}") for each in both]
    with open_place(f"kafka={KAFKA_3_9}", None, LocalRunner()) as place:
        servers = place.cluster.bootstrap_servers
        with RunningGuard(servers, replace(QUICK, only=Named(["guarded-"]))) as guard:
            guard.catch_up()
            beside = GuardedCluster(place.cluster, guard, clock_is_moved=False)
            outcomes = played_together(beside, LATE_PACE, [*looked_at, *both])
            for outcome in outcomes[:2]:
                assert not outcome.forgotten and not outcome.diverged, outcome.story
                assert beside.changed_options(outcome.topic) == []
            for outcome in outcomes[2:]:
                assert outcome.forgotten and outcome.diverged, outcome.story
