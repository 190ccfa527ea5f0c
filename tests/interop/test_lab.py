"""`sexton lab run --on kafka`, from the first jar to the last file removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexton.lab.divergences import LAB
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4
from tests.conftest import RunSexton
from tests.interrupted_lab import interrupted, processes_with

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (KAFKA_4, "tombstone-divergence"),
        pytest.param(KAFKA_4, "committed-as-aborted", marks=pytest.mark.soak),
        pytest.param(KAFKA_3_9, "tombstone-divergence", marks=pytest.mark.soak),
        pytest.param(KAFKA_3_9, "stuck-partition", marks=pytest.mark.soak),
        pytest.param(KAFKA_3_9, "marker-lifecycle", marks=pytest.mark.soak),
    ],
)
def test_the_story_is_told_on_apache_kafka(run_sexton: RunSexton, version: str, name: str) -> None:
    run = run_sexton("lab", "run", name, "--on", f"kafka={version}", "--format", "json")
    assert run.code == 0, run.stderr
    told = run.json
    assert told["summary"]["as_told"]
    assert told["summary"]["on"] == f"kafka={version}"
    if name == "tombstone-divergence":
        assert [verdict["code"] for verdict in told["verdicts"]] == [name]
        assert ["k=1" in reader["sees"] for reader in told["readers"]] == [False, False, True]
        killed = next(step for step in told["steps"] if step["what"] == "broker 3 is killed")
        assert (killed["broker_1"], killed["broker_3"]) == ("0:k=1", None)


@pytest.mark.soak
@pytest.mark.parametrize("name", LAB)
def test_with_a_guard_beside_apache_kafka(run_sexton: RunSexton, name: str) -> None:
    """On every change four of them are played in one outage: tests/guard/test_guard_kafka.py."""
    run = run_sexton("lab", "run", name, "--on", "kafka", "--guard", "--format", "json")
    assert run.code == 0, run.stderr
    assert run.json["summary"]["diverged"] == (not LAB[name].guard_helps)
    assert run.json["summary"]["changed_options"] is None


@pytest.mark.soak
@pytest.mark.parametrize(
    "name", ["aborted-as-committed", "committed-as-aborted", "stuck-partition"]
)
def test_early_forms_happen_on_apache_kafka(run_sexton: RunSexton, name: str) -> None:
    run = run_sexton("lab", "run", name, "--on", "kafka", "--early", "--format", "json")
    assert run.code == 0, run.stderr


def test_nothing_is_left_of_apache_kafka_after_ctrl_c(tmp_path: Path) -> None:
    assert interrupted(tmp_path, "--on", "kafka", nodes=2) == 130  # the third is stopped then
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("sexton")] == []
    assert processes_with(f"{tmp_path}/") == []
