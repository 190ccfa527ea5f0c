"""Every history of two instances and one task, and many long ones: no store is ever stale.

Each rule of the stores has a mistake that breaks it, and each mistake is found: a search that finds
nothing is worth as much as what it would have found.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.property.stores_search import search, walk
from tests.property.stores_world import Limits, Mistakes, mistakes_there_are

ONE_MOVE = Limits(rebalances=1)
DELETED = "a -a"

# What the design says must fail when it is broken: a name, inputs, what may happen, the mistakes.
BROKEN = {
    "a promoted standby trusts its disk": (
        "a a",
        ONE_MOVE,
        Mistakes(trust_local_checkpoint=True),
    ),
    "disk written before the commit, then abort": (
        "a a",
        Limits(rebalances=0, aborts=1),
        Mistakes(disk_before_commit=True),
    ),
    "disk written before the commit, then a crash": (
        "a a",
        Limits(rebalances=0, crashes=1),
        Mistakes(disk_before_commit=True),
    ),
    "checkpoint written before the data": (
        "a a",
        Limits(rebalances=0, crashes=1),
        Mistakes(checkpoint_before_data=True),
    ),
    "changelog end read before fencing": ("a a", ONE_MOVE, Mistakes(end_before_fencing=True)),
    "offsets read before fencing": (
        "a a",
        ONE_MOVE,
        Mistakes(offset_before_fencing=True, resume_from_group=True),
    ),
    "restored to the last stable offset, by generation alone": (
        "a a",
        ONE_MOVE,
        Mistakes(stable_end_by_generation_alone=True),
    ),
    "a broker acknowledges before offsets apply": (
        "a a",
        ONE_MOVE,
        Mistakes(acknowledged_before_applied=True, resume_from_group=True),
    ),
    "nobody looks where a new owner's first record lands": (
        "a a",
        Limits(rebalances=1, old_news=1),
        Mistakes(lands_anywhere=True),
    ),
    "a disk older than a cleaned tombstone": (
        DELETED,
        Limits(rebalances=1, passes=1, epochs=2),
        Mistakes(no_horizon=True),
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_fails_when_it_is_broken(rule: str) -> None:
    inputs, limits, mistakes = BROKEN[rule]
    searched = search(inputs, limits, mistakes)
    assert searched.wrong is not None


@pytest.mark.parametrize("rule", BROKEN)
def test_unbroken_the_same_search_finds_nothing(rule: str) -> None:
    inputs, limits, _ = BROKEN[rule]
    searched = search(inputs, replace(limits, states=2_500))
    assert searched.wrong is None, searched
    assert searched.states >= 100


def test_the_seeds_failure_in_its_own_words() -> None:
    """A counts and commits; B, a standby that has not read that, is promoted and trusts itself."""
    searched = search("a a", ONE_MOVE, BROKEN["a promoted standby trusts its disk"][2])
    assert searched.wrong == "B works from 1 on {}, committed are 1: {'a': 1}"


def test_a_broker_that_acknowledges_too_early_does_no_harm() -> None:
    """The input position is in the changelog: the group's offset may come late."""
    early = Mistakes(acknowledged_before_applied=True)
    searched = search("a a", replace(ONE_MOVE, states=5_000), early)
    assert searched.wrong is None, searched
    assert searched.finished > 0


def test_every_history_with_one_commit_is_right() -> None:
    """To the end: there is no state beyond those that were looked at."""
    limits = Limits(rebalances=1, epochs=2, states=50_000)
    searched = search("a", limits)
    assert searched.wrong is None, searched
    assert searched.states < limits.states


def test_every_history_with_one_commit_and_a_damaged_disk_is_right() -> None:
    limits = Limits(rebalances=0, damages=1, epochs=2, states=50_000)
    searched = search("a", limits)
    assert searched.wrong is None, searched
    assert searched.finished > 0
    assert searched.states < limits.states


LONG = Limits(
    rebalances=6, crashes=3, aborts=3, unsure=3, passes=2, old_news=3, damages=2, epochs=40,
    states=600,
)  # fmt: skip


def test_long_histories_are_right() -> None:
    finished = 0
    for seed in range(150):
        walked = walk("a b a -a a b -b a", LONG, seed)
        assert walked.wrong is None, (seed, walked)
        finished += walked.finished == 8
    assert finished > 30


@pytest.mark.parametrize("rule", list(BROKEN)[:3])
def test_long_histories_show_what_is_broken(rule: str) -> None:
    mistakes = BROKEN[rule][2]
    assert any(walk("a b a -a a b -b a", LONG, seed, mistakes).wrong for seed in range(300))


STILL = Mistakes(fenced_stand_still=True)


def test_long_histories_show_when_nobody_goes_on() -> None:
    """An owner that was fenced and is the owner still starts again; if not, nobody ever works."""
    found = {walk("a b a -a a b -b a", LONG, seed, STILL).wrong for seed in range(150)}
    assert found == {None, "nobody goes on"}


def test_every_mistake_that_can_be_made_is_made() -> None:
    every = [*(m for _, _, m in BROKEN.values()), STILL]
    made = {name for m in every for name, on in vars(m).items() if on}
    assert made == mistakes_there_are()


@pytest.mark.soak
@pytest.mark.parametrize("inputs", ["a a", "a b", DELETED])
def test_every_long_history_is_right(inputs: str) -> None:
    limits = Limits(rebalances=2, crashes=1, aborts=1, unsure=1, passes=1, states=2_000_000)
    assert search(inputs, limits).wrong is None


@pytest.mark.soak
def test_every_history_with_one_commit_and_a_crash_is_right() -> None:
    limits = Limits(rebalances=1, crashes=1, unsure=1, epochs=3, states=1_000_000)
    searched = search("a", limits)
    assert searched.wrong is None, searched
    assert searched.states < limits.states


@pytest.mark.soak
def test_many_long_histories_are_right() -> None:
    for seed in range(20_000):
        assert walk("a b a -a a b -b a", LONG, seed).wrong is None, seed
