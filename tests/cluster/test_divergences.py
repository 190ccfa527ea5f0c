"""Do replicas really come to disagree when each forgets by itself, and never when they ask?

The same scripts, timers and clients under both policies: `independent` is the negative control of
`coordinated`, and shows that the scripts would notice. Each is played as the lab plays it: watched
after every step, audited, and read from every broker as leader.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sexton.base.errors import ConfigError
from sexton.lab.divergences import (
    LAB,
    QUICK,
    SCENARIOS,
    WHOLE_LIFE,
    Scenario,
    aborted_as_committed,
    committed_as_aborted,
    late_epoch,
    marker_lifecycle,
    marker_states,
    slow_reassignment,
    stale_disk,
    stuck_partition,
    tombstone_divergence,
)
from sexton.lab.performing import Ending, perform
from sexton.lab.places import Place, open_place
from sexton.lab.stage import AWAY, Stage, Step
from sexton.survey.runner import LocalRunner

PATIENT = late_epoch.broker_options  # on a busy machine it takes longer to hold a broker back
MAY_BE_FORGOTTEN = ("stale-disk", "late-epoch")
BOTH_FORMS = pytest.mark.parametrize("early", [False, True], ids=["", "early"])


@pytest.fixture(scope="module")
def independent() -> Iterator[Place]:
    with open_place("embedded", "independent", LocalRunner(), PATIENT) as place:
        yield place


@pytest.fixture(scope="module")
def coordinated() -> Iterator[Place]:
    with open_place("embedded", "coordinated", LocalRunner(), PATIENT) as place:
        yield place


def played(scenario: Scenario, place: Place, *, early: bool = False) -> Ending:
    steps: list[Step] = []
    ending = perform(scenario, place, early=early, watch=steps.append)
    assert ending.surprises == []
    for finding in ending.survey.findings:
        assert finding.replicas == (3,)
        assert finding.verdict.right == (1, 2)
    assert [step.what for step in steps] == list(ending.outcome.story)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    return ending


def who_shows(ending: Ending, key: str) -> list[bool]:
    """As leaders, one after the other."""
    assert list(ending.readers) == [1, 2, 3]
    return [key in seen.latest for seen in ending.readers.values()]


def test_a_deleted_key_is_back(independent: Place) -> None:
    ending = played(tombstone_divergence, independent)
    outcome = ending.outcome
    assert outcome.forgotten and outcome.diverged
    assert outcome.seen.latest["k"] == "1"
    assert ["k" in log.latest for log in outcome.replicas.values()] == [False, False, True]
    assert who_shows(ending, "k") == [False, False, True]


@BOTH_FORMS
def test_aborted_data_is_shown(independent: Place, early: bool) -> None:
    ending = played(aborted_as_committed, independent, early=early)
    outcome = ending.outcome
    assert outcome.forgotten and outcome.diverged
    assert outcome.seen.latest["k"] == "1"
    assert ["k" in log.latest for log in outcome.replicas.values()] == [False, False, True]
    assert who_shows(ending, "k") == [False, False, True]


@BOTH_FORMS
def test_committed_data_is_hidden_and_called_aborted(independent: Place, early: bool) -> None:
    outcome = played(committed_as_aborted, independent, early=early).outcome
    assert outcome.forgotten and outcome.diverged
    first_offsets = {node: [at for _, at in log.aborted] for node, log in outcome.replicas.items()}
    assert 0 in first_offsets[3]
    assert 0 not in first_offsets[1]


@BOTH_FORMS
def test_a_reader_waits_for_ever_at_a_lost_marker(independent: Place, early: bool) -> None:
    ending = played(stuck_partition, independent, early=early)
    outcome = ending.outcome
    assert outcome.forgotten and outcome.diverged
    assert outcome.seen.position == 0
    assert [log.is_stuck for log in outcome.replicas.values()] == [False, False, True]
    assert who_shows(ending, "z") == [True, True, False]
    # In the early form an empty batch is left of the marker, on broker 3 too, and settles nothing.
    assert outcome.replicas[3].stored.get(1) == ("1:()" if early else None)


@pytest.mark.parametrize("scenario", [slow_reassignment, stale_disk])
def test_a_deleted_key_is_back_although_nobody_was_away(
    independent: Place, scenario: Scenario
) -> None:
    ending = played(scenario, independent)
    outcome = ending.outcome
    assert outcome.forgotten and outcome.diverged
    assert ["k" in log.latest for log in outcome.replicas.values()] == [False, False, True]
    assert who_shows(ending, "k") == [False, False, True]


def test_a_former_leader_shows_what_was_never_committed(independent: Place) -> None:
    ending = played(late_epoch, independent)
    outcome = ending.outcome
    assert outcome.forgotten and outcome.diverged
    assert ["k" in log.latest for log in outcome.replicas.values()] == [False, False, True]
    assert who_shows(ending, "k") == [False, False, True]
    (finding,) = ending.survey.findings
    assert finding.verdict.certainty == "likely"
    assert "broker 3 is back, in sync, and has kept k=1, which was never committed" in outcome.story


def test_it_cuts_that_off_where_a_copy_comes_with_where_terms_began(coordinated: Place) -> None:
    outcome = played(late_epoch, coordinated).outcome
    assert outcome.forgotten and not outcome.diverged
    assert all(log.stored.get(2) is None for log in outcome.replicas.values())
    said = "broker 3 is back, in sync, and has cut off k=1, which was never committed"
    assert said in outcome.story


@pytest.mark.parametrize(
    ("name", "early"),
    [*((name, False) for name in SCENARIOS), ("stuck-partition", True)],
)
def test_none_happens_where_they_ask_each_other(coordinated: Place, name: str, early: bool) -> None:
    ending = played(SCENARIOS[name], coordinated, early=early)
    outcome = ending.outcome
    # With a stale disk nobody is away: all three have reported, and may forget. That a value has
    # been replaced nobody has to know; but where a term began does not go with its batches.
    assert outcome.forgotten == (name in MAY_BE_FORGOTTEN)
    assert not outcome.diverged
    one, two, three = [log.latest for log in outcome.replicas.values()]
    assert one == two == three == outcome.seen.latest
    assert [seen.latest for seen in ending.readers.values()] == [one, one, one]
    assert not any(log.is_stuck for log in outcome.replicas.values())
    assert outcome.cleaned_up, "cleaning resumes when the replica is back"


def test_a_marker_is_emptied_and_then_goes(independent: Place, coordinated: Place) -> None:
    assert played(marker_lifecycle, independent).outcome.states == WHOLE_LIFE
    assert played(marker_lifecycle, coordinated).outcome.states == WHOLE_LIFE


def states_while_away(place: Place) -> tuple[str, ...]:
    stage = Stage(place.cluster, place.hands(), QUICK, "marker", bumps=True)
    try:
        return marker_states(stage, away=True)
    finally:
        place.cluster.restart(AWAY)


def test_a_marker_goes_although_somebody_needs_it(independent: Place) -> None:
    assert states_while_away(independent) == WHOLE_LIFE


def test_a_marker_stays_while_somebody_needs_it(coordinated: Place) -> None:
    assert states_while_away(coordinated) == ("COMMIT",)


@pytest.mark.parametrize("name", sorted(name for name in LAB if not LAB[name].has_early_form))
def test_what_waits_for_no_producer_has_no_early_form(name: str) -> None:
    with pytest.raises(ConfigError):
        LAB[name](None, early=True)  # type: ignore[arg-type]  # it does not get that far
