from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from sexton.sim import campaign as campaigns
from sexton.sim import shrinking
from sexton.sim.campaign import Finished
from sexton.sim.checks import Violation
from sexton.sim.faults import FAULTS
from sexton.sim.options import Options
from sexton.sim.replay import Replay
from sexton.sim.run import START_MS, Result
from sexton.sim.shrinking import Failure, Progress
from tests.conftest import RunSexton


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Runs that take no time; those of seeds that end in 3 fail. Holds how many jobs there were."""
    asked: list[int] = []

    def campaign(plan: Iterable[Options], jobs: int) -> Iterator[Finished]:
        asked.append(jobs)
        for options in plan:
            result = Result(options.seed, options, hours=2.0, events=10, faults={"power-cut": 2})
            if options.seed % 10 == 3:
                at_ms = START_MS + 27 * 3_600_000
                result.violation = Violation("stuck", at_ms, "broker 2, orders-0", "it stands")
            if options.seed == 66:
                raise KeyboardInterrupt
            yield Finished(result, cpu_s=0.5)

    monkeypatch.setattr(campaigns, "campaign", campaign)
    return asked


def test_clean_seeds_are_summed_up(run_sexton: RunSexton, pretend: list[int]) -> None:
    result = run_sexton("sim", "run", "--seeds", 2, "--jobs", 1)
    assert result.code == 0
    assert "power-cut      4\n" in result.stdout
    assert "\n\nNo seed failed: every check held, and replicas agree in the end.\n" in result.stdout
    assert "simulated hours           4\n" in result.stdout
    assert "events per core second    20\n" in result.stdout
    assert pretend == [1]


def test_a_seed_that_fails_makes_the_command_fail(
    run_sexton: RunSexton, pretend: list[int]
) -> None:
    answer = run_sexton("sim", "run", "--seeds", 5, "--hours", 30, "--format", "json")
    assert answer.code == 1
    found = answer.json["findings"][0]
    assert found["code"] == "stuck"
    assert found["where"] == "seed 3, day 2 03:00, broker 2, orders-0"
    assert found["remedy"] == "sexton sim replay 3 --hours 30 --policy coordinated"
    assert found["evidence"]["faults"] == ",".join(Options.of(3).faults)
    assert [row["violation"] for row in answer.json["seeds"]] == [None, None, "stuck", None, None]
    assert answer.json["summary"]["failed"] == 1


def test_an_interrupted_run_still_says_what_it_has_done(
    run_sexton: RunSexton, pretend: list[int]
) -> None:
    result = run_sexton("sim", "run", "--seeds", 9, "--first-seed", 64, "--format", "json")
    assert result.code == 130
    assert result.json["summary"]["seeds"] == 2


def test_no_seed_is_started_when_time_is_up(run_sexton: RunSexton, pretend: list[int]) -> None:
    told = run_sexton("sim", "run", "--seeds", 9, "--minutes", 0).stdout
    assert "No seed was run" in told and "No seed failed" not in told
    result = run_sexton("sim", "run", "--seeds", 9, "--minutes", 0, "--format", "json")
    assert result.code == 0
    assert result.json["seeds"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--faults", "nonsense"),
        ("run", "--hours", "0"),
        ("run", "--policy", "careless"),
        ("replay", "1", "--only", "7000"),
        ("shrink", "1", "--set", "keys=few"),
        ("shrink",),
    ],
)
def test_what_cannot_be_asked_exits_with_2(run_sexton: RunSexton, arguments: list[str]) -> None:
    result = run_sexton("sim", *arguments)
    assert result.code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")


def test_every_kind_of_fault_is_listed(run_sexton: RunSexton) -> None:
    answer = run_sexton("sim", "faults", "--format", "json").json
    assert [row["fault"] for row in answer["faults"]] == list(FAULTS)
    assert all(row["what"].endswith(".") for row in answer["faults"])


def test_what_shrinking_leaves_can_be_replayed(
    run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shrink(replay: Replay) -> Iterator[Progress]:
        violation = Violation("stuck", START_MS, "orders-0", "it stands")
        fault = (1, START_MS + 5 * 3_600_000, "broker 2 is killed")
        kept = Replay(replay.options, replay.without | {0})
        yield Progress(9, Failure(kept, violation, (fault,)), "1 fault")

    monkeypatch.setattr(shrinking, "shrink", shrink)
    result = run_sexton("sim", "shrink", 8, "--hours", 20, "--without", 2)
    assert result.code == 1
    assert "     1  day 1 05:00  broker 2 is killed\n" in result.stdout
    assert "→ sexton sim replay 8 --hours 20 --policy coordinated --without 0,2\n" in result.stdout


def test_a_seed_that_does_not_fail_cannot_be_shrunk(
    run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinking, "shrink", lambda _recipe: iter([Progress(1, None, "all")]))
    result = run_sexton("sim", "shrink", 8)
    assert result.code == 0
    assert result.stdout.startswith("seed 8 does not fail\n")
