from __future__ import annotations

import shlex
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.base.errors import ConfigError
from sexton.cli import registry
from sexton.cli.main import build_command
from sexton.cli.sim_options import chosen_replay
from sexton.sim.faults import FAULTS
from sexton.sim.narrator import clock
from sexton.sim.options import HOUR_MS, MINUTE_MS, Options
from sexton.sim.plan import all_but, planned
from sexton.sim.replay import Replay, left_out, replay_options

REPLAY = next(entry for entry in registry.COMMANDS if entry.path == "sim replay")


def understood(command: str) -> Replay:
    """What the command line makes of it."""
    words = shlex.split(command)
    assert words[:3] == ["sexton", "sim", "replay"]
    arguments = build_command(REPLAY).make_context("replay", words[3:]).params
    del arguments["format"]
    return chosen_replay(**arguments)


@st.composite
def option_sets(draw: st.DrawFn) -> Options:
    """What a seed stands for, and some of it changed."""
    policy = draw(st.sampled_from(["coordinated", "independent"]))
    options = Options.of(draw(st.integers(0, 10**9)), draw(st.integers(1, 40)), policy)
    names = draw(st.none() | st.lists(st.sampled_from(sorted(FAULTS)), max_size=4))
    if names is not None:
        options = options.with_faults(*dict.fromkeys(names))
    return replace(
        options,
        keys=draw(st.integers(1, 99)),
        deletes=draw(st.floats(0, 1)),
        unclean=draw(st.booleans()),
    )


@given(option_sets(), st.randoms(use_true_random=False))
def test_the_command_says_everything_that_differs(options: Options, random: Random) -> None:
    numbers = [each.number for each in planned(options)]
    kept = random.sample(numbers, random.randint(0, len(numbers)))
    replay = Replay(options, all_but(options, kept))
    assert understood(replay.command()) == replay


def test_what_the_seed_says_is_not_said_again() -> None:
    command = Replay(Options.of(17, 24, "coordinated")).command()
    assert command == "sexton sim replay 17 --hours 24 --policy coordinated"


def test_the_shorter_of_two_lists_is_printed() -> None:
    options = Options.of(17, 24, "coordinated")
    numbers = [each.number for each in planned(options)]
    assert Replay(options, frozenset({2, 1})).command().endswith(" --without 1,2")
    assert Replay(options, frozenset(numbers[2:])).command().endswith(" --only 0,1")


def test_a_fault_keeps_its_number_and_time_in_a_shorter_run() -> None:
    long = list(planned(Options.of(5, 48)))
    short = list(planned(Options.of(5, 12)))
    assert 0 < len(short) < len(long)
    assert long[: len(short)] == short


@pytest.mark.parametrize(
    ("faults", "settings", "why"),
    [
        ("killed-leader,nonsense", (), "there is no fault nonsense"),
        (None, ("keys",), "is not an option of a run"),
        (None, ("color=red",), "is not an option of a run"),
        (None, ("seed=3",), "is not an option of a run"),
        (None, ("keys=many",), "has no such value"),
        (None, ("keys=-1",), "has no such value"),
        (None, ("unclean=perhaps",), "has no such value"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    faults: str | None, settings: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        replay_options(1, 10, "coordinated", faults, settings)
    assert caught.value.why == why


@pytest.mark.parametrize(
    ("without", "only", "why"),
    [
        ("1", "2", "and --without say the same thing twice"),
        ("999999", None, "no fault has the number 999999"),
        (None, "one", "one is not a list of numbers"),
    ],
)
def test_faults_that_cannot_be_left_out_are_refused(
    without: str | None, only: str | None, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        left_out(Options.of(1, 10), without, only)
    assert caught.value.why == why


def test_times_are_told_by_day_and_minute() -> None:
    assert clock(0) == "day 1 00:00"
    assert clock(27 * HOUR_MS + 12 * MINUTE_MS + 59_999) == "day 2 03:12"
