"""A seed decides everything: a run can be told again, in another process, and made smaller."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sexton.sim.campaign import campaign
from sexton.sim.plan import planned
from sexton.sim.run import START_MS, Run
from sexton.sim.shrinking import WorkOnly, attempt, shrink
from tests.conftest import RunSexton
from tests.simulation.failing import failing
from tests.simulation.told import told

ROOT = Path(__file__).parents[2]


def test_the_same_seed_tells_the_same_story_byte_for_byte() -> None:
    story = told(3, 4)
    assert story.count("\n") > 100
    assert told(3, 4) == story


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_with_other_hashes_tells_it_too(hash_seed: str) -> None:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "tests/simulation/told.py", "3", "4"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout == told(3, 4)


def test_listening_changes_nothing() -> None:
    options = failing().replay.options
    silent = Run(options).go()
    assert silent.violation == failing().violation
    assert silent == Run(options, story=lambda _at, _what: None).go()


def test_faults_come_when_the_plan_says() -> None:
    options = failing().replay.options
    run = WorkOnly(options)
    run.go()
    times = {each.number: each.at_ms for each in planned(options)}
    assert run.injected
    assert all(times[number] == at_ms - START_MS for number, at_ms, _ in run.injected)


def test_workers_give_what_one_process_gives() -> None:
    options = failing().replay.options
    alone = [finished.result for finished in campaign([options], jobs=1)]
    shared = [finished.result for finished in campaign([options, options], jobs=2)]
    assert shared == alone * 2


def test_a_failing_seed_prints_its_options_and_the_command_that_replays_it(
    run_sexton: RunSexton,
) -> None:
    failure = failing()
    words = shlex.split(failure.replay.command())
    run = ["sim", "run", "--seeds", "1", "--jobs", "1", "--first-seed", words[3], *words[4:]]
    result = run_sexton(*run)
    assert result.code == 1
    assert "deleted-key-lives" in result.stdout
    assert failure.replay.options.text().replace("=False", "=false") in result.stdout
    command = next(line for line in result.stdout.splitlines() if "→" in line).partition("→ ")[2]
    assert command == failure.replay.command()

    replayed = run_sexton(*shlex.split(command)[1:])
    assert replayed.code == 1
    assert f"→ {command}\n" in replayed.stdout
    assert failure.violation.what in replayed.stdout
    first_fault = failure.faults[0]
    assert f"#{first_fault[0]} {first_fault[2]}\n" in replayed.stdout


def test_shrinking_leaves_only_faults_that_are_needed() -> None:
    failure = failing()
    *_, last = shrink(failure.replay)
    best = last.best
    assert best is not None
    assert 0 < len(best.faults) < len(failure.faults)
    assert best.replay.options.hours <= failure.replay.options.hours
    again = attempt(best.replay, False)
    assert again is not None and again.violation.kind == "deleted-key-lives"
    told = {what.partition(" of ")[0].split(" ")[0] for _, _, what in best.faults}
    assert told <= {"broker", "delete.retention.ms", "nothing"}, best.faults


def test_ctrl_c_ends_every_worker_and_says_nothing_but_that() -> None:
    words = shlex.split(failing().replay.command())
    run = ["sim", "run", "--seeds", "50", "--jobs", "2", "--first-seed", words[3], *words[4:]]
    with subprocess.Popen(
        [sys.executable, "-m", "sexton.cli.main", *run, "--format", "jsonl"],
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()  # workers are at it
        os.killpg(process.pid, signal.SIGINT)
        # Pipes end when the last process that has them is gone.
        assert '"exit_code": 130' in process.stdout.read().splitlines()[-1]
        assert process.stderr.read() == "interrupted\n"
    assert process.returncode == 130
