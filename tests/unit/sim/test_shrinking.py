from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from sexton.sim.checks import Violation
from sexton.sim.options import HOUR_MS, Options
from sexton.sim.plan import BUILD_MS, planned
from sexton.sim.replay import Replay
from sexton.sim.run import START_MS
from sexton.sim.shrinking import Attempt, Failure, minimal, shrink

OPTIONS = Options.of(1, hours=48).with_faults("killed-broker")


def searched(items: list[int], fails: Callable[[list[int]], bool]) -> tuple[list[int], int]:
    """What is left, and how many runs that took."""
    search, runs = minimal(items), 0
    verdict: bool | None = None
    while True:
        try:
            candidate = next(search) if verdict is None else search.send(verdict)
        except StopIteration as end:
            return end.value, runs
        verdict, runs = fails(candidate), runs + 1


@given(st.integers(1, 60), st.sets(st.integers(0, 59)))
def test_what_is_needed_is_left_and_nothing_else(count: int, needed: set[int]) -> None:
    needed = {item for item in needed if item < count}
    left, _ = searched(list(range(count)), lambda kept: needed <= set(kept))
    assert left == sorted(needed)


@given(st.integers(2, 30), st.integers(2, 7))
def test_no_single_fault_can_be_left_out_of_what_is_left(count: int, modulus: int) -> None:
    def fails(kept: list[int]) -> bool:  # any so many will do
        return len(kept) >= min(count, modulus)

    left, _ = searched(list(range(count)), fails)
    assert fails(left)
    assert not any(fails(left[:at] + left[at + 1 :]) for at in range(len(left)))


def test_two_faults_of_a_hundred_are_found_in_some_dozen_runs() -> None:
    left, runs = searched(list(range(100)), lambda kept: {17, 80} <= set(kept))
    assert left == [17, 80]
    assert runs < 70


def failing_with(needed: set[int], kind: str, at_ms: int, asked: list[Replay]) -> Attempt:
    """A run that fails when these faults happen, and otherwise crashes."""

    def attempt(replay: Replay, while_working: bool) -> Failure | None:
        asked.append(replay)
        kept = [each for each in planned(replay.options) if each.number not in replay.without]
        faults = tuple((each.number, START_MS + each.at_ms, each.name) for each in kept)
        if needed <= {each.number for each in kept}:
            return Failure(replay, Violation(kind, START_MS + at_ms, "here", "it"), faults)
        return Failure(replay, Violation("crash", START_MS, "there", "it"), faults)

    return attempt


def test_another_kind_of_failure_is_not_what_was_sought() -> None:
    asked: list[Replay] = []
    attempt = failing_with({1, 3}, "stale-value", BUILD_MS + 9 * HOUR_MS + 5, asked)
    *_, last = shrink(Replay(OPTIONS), attempt)
    assert last.best is not None
    assert [number for number, _, _ in last.best.faults] == [1, 3]
    assert last.best.violation.kind == "stale-value"


def test_no_run_is_longer_than_the_shortest_that_failed() -> None:
    asked: list[Replay] = []
    attempt = failing_with({1}, "stale-value", BUILD_MS + 9 * HOUR_MS + 5, asked)
    *_, last = shrink(Replay(OPTIONS), attempt)
    assert [replay.options.hours for replay in asked] == [48] + [10] * (len(asked) - 1)
    assert last.best is not None and last.best.replay == asked[-1]
    assert last.runs == len(asked)


def test_what_fails_after_healing_is_tried_with_half_the_hours() -> None:
    asked: list[Replay] = []
    attempt = failing_with({1}, "not-healed", BUILD_MS + 90 * HOUR_MS, asked)
    *_, last = shrink(Replay(OPTIONS), attempt)
    assert last.best is not None
    hours = last.best.replay.options.hours
    assert hours < 48
    assert [replay.options.hours for replay in asked][:2] == [48, 24]
    assert {each.number for each in planned(last.best.replay.options)} >= {1}


def test_a_run_that_does_not_fail_is_not_shrunk() -> None:
    (only,) = shrink(Replay(OPTIONS), lambda _recipe, _while_working: None)
    assert only.best is None and only.runs == 1
