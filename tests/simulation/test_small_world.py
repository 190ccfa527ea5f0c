"""Every history of three replicas and a few records: nothing is wrong, unless we plant it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sexton.sim.letters import Faults, planted
from sexton.sim.search import search
from sexton.sim.small_world import Limits

# The smallest logs that can diverge, one for each way.
LOGS = {
    "deleted key lives": "v k; t k; v z",
    "aborted as committed": "V k p1; A p1; V j p1; C p1",
    "committed as aborted": "V k p1; C p1; v k; V j p1; A p1",
    "stuck": "V k p1; C p1; v k; v z",
}
TOMBSTONE, ABORTED = "v k; t k; v z", "V k p1; A p1; v z"

# All replicas have the tombstone; an earlier disk of 3 has only what it buries.
CAUGHT_UP = "append v k; append t k; 2 fetches; 3 fetches; 2 fetches; 3 fetches"
REPORTED = (
    "append v k; 2 fetches; 3 fetches; 3's disk is copied; append t k; 2 fetches; 3 fetches;"
    "append v z; 2 fetches; 3 fetches; 1 cleans [0,3); 2 cleans [0,2); 3 cleans [0,3);"
    "2 reports; 3 reports"
)

# For each mistake: a log, how much may happen, and where the search starts.
MISTAKES = {
    "independent": (TOMBSTONE, Limits(cleans=1, crashes=0, elections=0), ""),
    "minimum_over_isr": (TOMBSTONE, Limits(cleans=2, crashes=0, elections=0), ""),
    "silence_counts_as_done": (
        TOMBSTONE,
        Limits(cleans=2, crashes=0, elections=0),
        "",
    ),
    "stable_offset_as_mxfo": (
        ABORTED,
        Limits(cleans=1, crashes=0, elections=0, memberships=1),
        "append V k p1; append A p1; 2 fetches; 3 fetches; 2 fetches; 3 fetches",
    ),
    "kept_reports": (
        TOMBSTONE,
        Limits(cleans=4, crashes=0, elections=0, memberships=1),
        f"{CAUGHT_UP}; append v z; 2 fetches; 2 cleans [0,2); 3 cleans [0,2)",
    ),
    "trusted_disk": (TOMBSTONE, Limits(cleans=4, crashes=1, elections=0, old_disks=1), REPORTED),
    "uncommitted_supersedes": (
        "v k; V k p1; A p1",
        Limits(cleans=1, crashes=0, elections=0),
        "",
    ),
    "unreplicated_marker_resolves": (ABORTED, Limits(cleans=1, crashes=0, elections=1), ""),
    "added_replica_is_clean": (
        TOMBSTONE,
        Limits(cleans=3, crashes=0, elections=0, memberships=1),
        CAUGHT_UP,
    ),
    "reported_before_sync": (
        TOMBSTONE,
        Limits(cleans=4, crashes=1, elections=0),
        f"{CAUGHT_UP}; append v z; 2 fetches; 2 cleans [0,2); 3 cleans [0,2)",
    ),
    "markers_without_bound": (ABORTED, Limits(cleans=2, crashes=0, elections=0), ""),
    "late_announcements": (
        TOMBSTONE,
        Limits(cleans=4, crashes=1, elections=1, old_disks=1),
        REPORTED,
    ),
    "unclean_without_discard": (
        TOMBSTONE,
        Limits(cleans=2, crashes=1, elections=0, losses=1),
        "",
    ),
}


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS.keys())
def test_as_kafka_does_it_replicas_come_to_disagree(log: str) -> None:
    limits = Limits(cleans=2, crashes=0, elections=0)
    found = search(log, limits, Faults(independent=True)).found
    assert found is not None
    assert "would tell" in found.what


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS.keys())
def test_coordinated_replicas_agree_in_every_history(log: str) -> None:
    searched = search(log, Limits(cleans=2, crashes=0, elections=0, states=20_000))
    assert searched.found is None
    assert searched.states > 5_000


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_planted_mistake_is_found(mistake: str) -> None:
    log, limits, begin = MISTAKES[mistake]
    found = search(log, limits, Faults(**{mistake: True}), begin).found
    assert found is not None


@pytest.mark.parametrize("mistake", MISTAKES)
def test_without_the_mistake_the_same_search_finds_nothing(mistake: str) -> None:
    log, limits, begin = MISTAKES[mistake]
    searched = search(log, replace(limits, states=25_000), begin=begin)
    assert searched.found is None, searched.found


def test_every_mistake_that_can_be_planted_is_planted() -> None:
    assert set(MISTAKES) == set(planted())


@pytest.mark.soak
@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS.keys())
def test_coordinated_replicas_agree_in_every_long_history(log: str) -> None:
    assert search(log, Limits(cleans=3, crashes=1, elections=1, memberships=1)).found is None


@pytest.mark.soak
@pytest.mark.parametrize("mistake", MISTAKES)
def test_without_the_mistake_a_long_search_finds_nothing(mistake: str) -> None:
    log, limits, begin = MISTAKES[mistake]
    assert search(log, replace(limits, states=2_000_000), begin=begin).found is None
