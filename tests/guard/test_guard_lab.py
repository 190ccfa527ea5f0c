"""`sexton lab run --guard`: the same stories with a guard that looks on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sexton.lab import guarding
from sexton.lab.divergences import LAB
from tests.conftest import RunSexton
from tests.interrupted_lab import interrupted

# And one that people are told.
ALWAYS = ("committed-as-aborted", "slow-reassignment", "stale-disk", "late-epoch")
NAMES = [pytest.param(n, marks=[] if n in ALWAYS else [pytest.mark.soak]) for n in LAB]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_diverges_that_a_guard_can_keep_from_it(run_sexton: RunSexton, name: str) -> None:
    run = run_sexton("lab", "run", name, "--guard", "--format", "json")
    assert run.code == 0, run.stderr
    told, helps = run.json, LAB[name].guard_helps
    assert told["summary"]["guarded"] and told["summary"]["changed_options"] is None
    assert told["summary"]["diverged"] == (not helps)
    assert bool(told["verdicts"]) == (not helps)
    deeds = [deed["what"] for deed in told["deeds"] if deed["topic"].startswith(name)]
    # Where nobody is away there may be nothing to do; else the last thing is to let it go.
    assert deeds[::2] == ["froze"] * (len(deeds) // 2) and deeds[1::2] == ["thawed"] * len(
        deeds[::2]
    )
    assert deeds or name == "marker-lifecycle"


def test_people_are_told_what_the_guard_does(run_sexton: RunSexton) -> None:
    run = run_sexton("lab", "run", "tombstone-divergence", "--guard")
    assert run.code == 0, run.stderr
    assert "   guard     froze tombstone-divergence-" in run.stdout
    assert ": replica 3 is offline (partition 0)" in run.stdout
    assert "   guard     thawed tombstone-divergence-" in run.stdout
    assert "every option is exactly as it was before." in run.stdout
    assert "no divergence, as the scenario says." in run.stdout


@pytest.mark.parametrize("name", ["tombstone-divergence", "late-epoch"])
def test_a_guard_that_does_nothing_is_found_out(
    run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The negative control: one that may not look at any topic."""
    monkeypatch.setattr(guarding, "QUICK", replace(guarding.QUICK, only=frozenset()))
    monkeypatch.setattr(guarding.GuardedCluster, "changed_options", lambda _self, _topic: [])
    run = run_sexton("lab", "run", name, "--guard")
    assert run.code == 1
    assert "replicas diverged; the audit finds tombstone-divergence, not nothing" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["stuck-partition", "--on", "sim"], "the simulator has no sockets"),
        (["eos-checkpoint"], "is not about cleaning"),
        (
            ["stuck-partition", "--policy", "coordinated"],
            "has nothing to do where replicas ask each other",
        ),
    ],
)
def test_where_a_guard_makes_no_sense_it_is_said(
    run_sexton: RunSexton, arguments: list[str], complaint: str
) -> None:
    run = run_sexton("lab", "run", "--guard", *arguments)
    assert run.code == 2
    assert complaint in run.stderr


def test_nothing_is_left_after_ctrl_c(tmp_path: Path) -> None:
    assert interrupted(tmp_path, "--guard") == 130
    assert list(tmp_path.iterdir()) == []
