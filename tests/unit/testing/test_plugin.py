"""How users of pytest get a cluster of another shape, and what they are told when it is wrong."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.pytest_apart import pytest_apart

TESTS = """
import pytest

pytestmark = pytest.mark.kafka_options(options={"num.partitions": 4})


def partitions(kafka, topic):
    from confluent_kafka.admin import AdminClient
    listed = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(topic, 10)
    return len(listed.topics[topic].partitions)


def test_the_project_chooses(start_kafka):
    assert partitions(start_kafka(), "asked-for") == 6


def test_the_module_chooses(kafka):
    assert partitions(kafka, "asked-for") == 4
    kafka.create_topic("made")
    assert partitions(kafka, "made") == 4
    kafka.create_topic("counted", 2)
    assert partitions(kafka, "counted") == 2


@pytest.mark.kafka_options(brokers=2, options={"num.partitions": 2})
def test_the_test_chooses(kafka):
    assert kafka.node_ids == [1, 2]
    assert partitions(kafka, "asked-for") == 2


def test_each_test_has_a_cluster_of_its_own(kafka, kafka_cluster):
    assert kafka.topics() == kafka_cluster.topics() == []
    assert kafka_cluster.node_ids == [1, 2, 3]
"""

WRONG = """
import pytest


@pytest.mark.kafka_options(3)
def test_a_number_without_a_name(kafka):
    pass


@pytest.mark.kafka_options(options={"num.partition": 3})
def test_an_option_that_is_not_there(kafka):
    pass
"""


def run_pytest(directory: Path, text: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(text, encoding="utf-8")
    (directory / "pytest.ini").write_text(
        "[pytest]\nkafka_options =\n    num.partitions=6\naddopts = --strict-markers\n",
        encoding="utf-8",
    )
    return pytest_apart(directory, "-q")


def test_the_nearest_word_counts(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, TESTS)
    assert run.stdout.splitlines()[-1].startswith("4 passed"), run.stdout + run.stderr


def test_a_mistake_is_explained(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, WRONG)
    assert run.returncode == 1
    assert "kafka_options takes names only, such as kafka_options(brokers=2)" in run.stdout
    assert "num.partition: is not an option of this cluster's brokers" in run.stdout


def test_nobody_pays_for_fixtures_that_are_not_used() -> None:
    script = "import sys, sexton.testing.plugin; print('sexton.broker' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout == "False\n"


def test_the_plugin_is_announced_to_pytest() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'pytest11]\nsexton = "sexton.testing.plugin"' in text
    installed = list(entry_points(group="pytest11", name="sexton"))
    if not installed:
        pytest.skip("installed before the plugin was there; `make` installs it again")
    assert installed[0].value == "sexton.testing.plugin"
