"""Do replicas really come to disagree when each forgets by itself, and never when they ask?

The same scripts, timers and clients under both policies: `independent` is the negative control of
`coordinated`, and shows that the scripts would notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest

from sexton.lab.divergences import (
    EMBEDDED_OPTIONS,
    SCENARIOS,
    Scenario,
    aborted_as_committed,
    committed_as_aborted,
    deleted_key_lives,
    life_of_a_marker,
    slow_reassignment,
    stale_disk,
    stuck,
)
from sexton.testing.embedded import EmbeddedCluster

Policy = Literal["independent", "coordinated"]


def cluster_with(policy: Policy) -> EmbeddedCluster:
    return EmbeddedCluster(compaction=policy, options=EMBEDDED_OPTIONS, frozen_clock=True)


@pytest.fixture
def independent() -> Iterator[EmbeddedCluster]:
    with cluster_with("independent") as cluster:
        yield cluster


@pytest.fixture
def coordinated() -> Iterator[EmbeddedCluster]:
    with cluster_with("coordinated") as cluster:
        yield cluster


def test_a_deleted_key_is_back(independent: EmbeddedCluster) -> None:
    outcome = deleted_key_lives(independent)
    assert outcome.forgotten and outcome.diverged
    assert outcome.seen.latest["k"] == "1"
    assert ["k" in log.latest for log in outcome.replicas.values()] == [False, False, True]


def test_aborted_data_is_shown(independent: EmbeddedCluster) -> None:
    outcome = aborted_as_committed(independent)
    assert outcome.forgotten and outcome.diverged
    assert outcome.seen.latest["k"] == "1"
    assert ["k" in log.latest for log in outcome.replicas.values()] == [False, False, True]


def test_committed_data_is_hidden_and_called_aborted(independent: EmbeddedCluster) -> None:
    outcome = committed_as_aborted(independent)
    assert outcome.forgotten and outcome.diverged
    first_offsets = {node: [at for _, at in log.aborted] for node, log in outcome.replicas.items()}
    assert 0 in first_offsets[3]
    assert 0 not in first_offsets[1]


def test_a_reader_waits_for_ever_at_a_lost_marker(independent: EmbeddedCluster) -> None:
    outcome = stuck(independent)
    assert outcome.forgotten and outcome.diverged
    assert outcome.seen.position == 0
    assert [log.is_stuck for log in outcome.replicas.values()] == [False, False, True]


@pytest.mark.parametrize("scenario", [slow_reassignment, stale_disk])
def test_a_deleted_key_is_back_although_nobody_was_away(
    scenario: Scenario, independent: EmbeddedCluster
) -> None:
    outcome = scenario(independent)
    assert outcome.forgotten and outcome.diverged
    assert ["k" in log.latest for log in outcome.replicas.values()] == [False, False, True]


@pytest.mark.parametrize("name", SCENARIOS)
def test_none_happens_where_they_ask_each_other(name: str, coordinated: EmbeddedCluster) -> None:
    outcome = SCENARIOS[name](coordinated)
    # With a stale disk nobody is away: all three have reported, and may forget.
    assert outcome.forgotten == (name == "stale-disk")
    assert not outcome.diverged
    one, two, three = [log.latest for log in outcome.replicas.values()]
    assert one == two == three == outcome.seen.latest
    assert not any(log.is_stuck for log in outcome.replicas.values())
    assert outcome.cleaned_up, "cleaning resumes when the replica is back"


@pytest.mark.parametrize("policy", ["independent", "coordinated"])
def test_a_marker_is_emptied_and_then_goes(policy: Policy) -> None:
    with cluster_with(policy) as cluster:
        assert life_of_a_marker(cluster, away=False) == ("COMMIT", "empty", "gone")


def test_a_marker_goes_although_somebody_needs_it(independent: EmbeddedCluster) -> None:
    assert life_of_a_marker(independent, away=True) == ("COMMIT", "empty", "gone")


def test_a_marker_stays_while_somebody_needs_it(coordinated: EmbeddedCluster) -> None:
    assert life_of_a_marker(coordinated, away=True) == ("COMMIT",)
