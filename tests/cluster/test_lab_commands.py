"""`sexton lab` as a user runs it; that every scenario ends well is in `test_divergences`."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from sexton.lab.divergences import LAB
from sexton.lab.stores_eos import STORIES
from sexton.testing.waiting import until
from tests.conftest import RunSexton
from tests.interrupted_lab import interrupted

SIMULATED = [
    (name, policy, early)
    for name, scenario in LAB.items()
    for policy in ("independent", "coordinated")
    for early in ([False, True] if scenario.has_early_form else [False])
]
# The negative control has one that is coordinated; others are in tests/simulation/test_divergences.
ALWAYS_SIMULATED = (
    ("tombstone-divergence", "independent", False),
    ("stuck-partition", "independent", True),
    ("slow-reassignment", "independent", False),
    ("late-epoch", "independent", False),
    ("late-epoch", "coordinated", False),
    ("marker-lifecycle", "independent", False),
)


def test_the_list_names_every_scenario(run_sexton: RunSexton) -> None:
    listed = run_sexton("lab", "list", "--format", "json")
    assert listed.code == 0
    assert [row["scenario"] for row in listed.json["scenarios"]] == [*LAB, *STORIES]
    early = {row["scenario"] for row in listed.json["scenarios"] if row["early"]}
    assert early == {"aborted-as-committed", "committed-as-aborted", "stuck-partition"}


def test_people_see_every_broker_after_every_step_and_a_verdict(run_sexton: RunSexton) -> None:
    run = run_sexton("lab", "run", "slow-reassignment")
    assert run.code == 0, run.stderr
    assert "1. write k=1\n   broker 1  0:k=1\n   broker 2  0:k=1\n   broker 3  -\n" in run.stdout
    assert "1..24:(other keys)" in run.stdout
    assert "When broker 1 leads, a read_committed consumer sees filler=" in run.stdout
    assert "When broker 3 leads, a read_committed consumer sees k=1 filler=" in run.stdout
    assert "✗ broker 3" in run.stdout
    assert "replicas diverged, as the scenario says." in run.stdout
    assert re.search(r"\$ sexton repair slow-reassignment-\d+:0", run.stdout)
    assert "the commands above are for your own clusters." in " ".join(run.stdout.split())
    assert "Before step" not in run.stdout


def test_people_are_told_what_a_finding_stands_for(run_sexton: RunSexton) -> None:
    run = run_sexton("lab", "run", "late-epoch", "--on", "sim")
    assert run.code == 0, run.stderr
    assert "3. write filler 8 times\n" in run.stdout
    assert "\n7. broker 3 is back, in sync, and has kept k=1, which was never" in run.stdout
    assert "Replica 3 shows a deleted key, at offset 2." in run.stdout
    told = " ".join(run.stdout.split())
    assert "No log tells the audit that the key was never committed" in told


def test_people_are_told_if_something_happened_after_the_look(run_sexton: RunSexton) -> None:
    run = run_sexton("lab", "run", "tombstone-divergence", "--on", "sim", "--policy", "coordinated")
    assert run.code == 0, run.stderr
    steps, _before, rest = run.stdout.partition("Before step 8, readers and an audit have looked.")
    assert "\n8. time passes; all brokers clean" in steps and "\n9. " not in steps
    assert rest.startswith("\nWhen broker 1 leads")
    assert "your own clusters" not in rest  # there are no commands


@pytest.mark.parametrize(
    ("name", "policy", "early"),
    [
        pytest.param(*each, marks=[] if each in ALWAYS_SIMULATED else [pytest.mark.soak])
        for each in SIMULATED
    ],
)
def test_the_simulator_tells_the_same_story(
    run_sexton: RunSexton, name: str, policy: str, early: bool
) -> None:
    more = ["--early"] if early else []
    arguments = ["lab", "run", name, "--on", "sim", "--policy", policy, "--format", "json", *more]
    run = run_sexton(*arguments)
    assert run.code == 0, run.stderr
    diverges = policy == "independent" and LAB[name].finding is not None
    assert run.json["summary"]["diverged"] == diverges
    codes = [verdict["code"] for verdict in run.json["verdicts"]]
    assert codes == ([LAB[name].finding] if diverges else [])
    seen = [reader["sees"] for reader in run.json["readers"]]
    if diverges and name != "committed-as-aborted":  # there the damage is in the list of aborts
        assert seen[0] == seen[1] != seen[2]
    else:
        assert seen[0] == seen[1] == seen[2]


def test_what_does_not_end_as_it_says_exits_1(
    run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: brokers that say they forget by themselves, and ask all the same."""
    from sexton.lab import sim_cluster

    real = sim_cluster.SimCluster
    monkeypatch.setattr(sim_cluster, "SimCluster", lambda _policy: real("coordinated"))
    run = run_sexton(
        "lab", "run", "stuck-partition", "--early", "--on", "sim", "--policy", "independent",
        "--format", "json",
    )  # fmt: skip
    assert run.code == run.json["exit_code"] == 1
    assert run.json["error"]["kind"] == "not-as-told"
    assert "replicas agree; the audit finds nothing, not stuck-partition" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nope"], "is not a scenario"),
        (["stale-disk", "--on", "moon"], "is not a place"),
        (["stale-disk", "--on", "sim=4"], "is not a place"),
        (["stale-disk", "--on", "kafka="], "is not a place"),
        (["stale-disk", "--on", "kafka", "--policy", "coordinated"], "no choice of policies"),
        (["stale-disk", "--on", "sim", "--early"], "no producer to expire"),
        (["stale-disk", "--step"], "needs a person at a terminal"),
    ],
)
def test_what_cannot_be_done_is_said(
    run_sexton: RunSexton, arguments: list[str], complaint: str
) -> None:
    run = run_sexton("lab", "run", *arguments)
    assert run.code == 2
    assert complaint in run.stderr


def test_nothing_is_left_after_ctrl_c(tmp_path: Path) -> None:
    assert interrupted(tmp_path, "--on", "embedded") == 130
    assert list(tmp_path.iterdir()) == []


def is_listened_to(terminal: int) -> bool:
    """What is typed before a program asks for single keys is thrown away."""
    local_modes: int = termios.tcgetattr(terminal)[3]
    return not local_modes & termios.ICANON


def test_each_step_waits_for_a_key() -> None:
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-m", "sexton.cli.main", "lab", "run", "stuck-partition", "--early"]
    pressed = 0
    with subprocess.Popen(
        [*command, "--on", "sim", "--step"],
        stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = b""
        while chunk := os.read(process.stdout.fileno(), 4096):
            said += chunk
            while said.count(b"press any key") > pressed:
                until(lambda: is_listened_to(terminal), "somebody reads the keyboard", 60)
                os.write(keyboard, b" ")
                pressed += 1
        assert process.wait(60) == 0
    os.close(keyboard)
    os.close(terminal)
    steps = [line for line in said.decode().splitlines() if re.match(r"\W*\d+\. ", line)]
    assert pressed == len(steps) == 9
