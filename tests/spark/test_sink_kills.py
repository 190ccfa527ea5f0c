"""kill -9 of the driver: at every step of the protocol, and at any time.

One driver has many pipelines, one for each step and cluster. Each stops at its step in the middle
of a batch; when all are there, the driver is killed. The next one takes up all of them, and is
killed some time later, wherever they are then. The third one finishes.

Beside them goes the control, through the same kills: a pipeline that does not ask the marker.
"""

from __future__ import annotations

import random
import subprocess
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.spark.sink_protocol import STEPS
from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.spark import driver_process, sink_driver
from tests.spark.sink_driver import Pipeline, Work, held_mark
from tests.spark.sink_faults import ROWS, WIDE, committed, rows_to, trouble

FILES = 3
PARTITIONS = 2
SECOND = list(range(ROWS, ROWS + 5))  # the first rows of the batch in which all of them stop
DEADLINE_S = 1200.0  # a minute or two if nobody else is at work


def driver(work: Work) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return driver_process.driver(sink_driver.__name__, Path(work.place), work.written_down())


def said(work: Work) -> str:
    return driver_process.said(Path(work.place))


def await_marks(process: subprocess.Popen[bytes], work: Work, marks: list[Path], few: int) -> None:
    """Waits until a few of them are there; a driver that has ended will not make them."""

    def there() -> bool:
        assert process.poll() in (None, 0), said(work)
        return sum(map(Path.exists, marks)) >= few

    until(there, f"{few} of {len(marks)} marks", DEADLINE_S, lambda: said(work))


def finish(work: Work) -> None:
    with driver(work) as process:
        assert process.wait(DEADLINE_S) == 0, said(work)


def check(clusters: dict[str, Cluster], work: Work) -> None:
    for pipeline in work.pipelines:
        cluster = clusters[pipeline.topic.partition("-")[0]]
        wrong = trouble(committed(cluster, pipeline.topic, PARTITIONS), FILES * ROWS)
        if pipeline.rules:
            assert f"twice: {SECOND}" in wrong, pipeline.topic
        else:
            assert wrong == [], pipeline.topic


@pytest.mark.kafka
def test_a_driver_is_killed_at_every_step_and_at_some_time(
    three: EmbeddedCluster, kafka4: ApacheKafka, tmp_path: Path
) -> None:
    clusters: dict[str, Cluster] = {"ours": three, "kafka": kafka4}
    pipelines = []
    for name, cluster in clusters.items():
        for step in STEPS:
            cluster.create_topic(f"{name}-{step}", PARTITIONS)
            pipelines.append(Pipeline(cluster.bootstrap_servers, f"{name}-{step}", step))
        # Between Kafka's commit and Spark's note of it, only the marker knows.
        control = Pipeline(
            cluster.bootstrap_servers, f"{name}-unmarked", "committed", rules="unmarked"
        )
        cluster.create_topic(control.topic, PARTITIONS)
        pipelines.append(control)
    for step in STEPS:  # the driver itself is the sender of small batches
        small = Pipeline(
            kafka4.bootstrap_servers, f"kafka-here-{step}", step, way="here", after=1,
            requests_of=None,
        )  # fmt: skip
        kafka4.create_topic(small.topic, PARTITIONS)
        pipelines.append(small)
    rows_to(tmp_path / "files", range(FILES), WIDE)
    slots = len(pipelines) // 2 + 1  # half of the steps are in tasks, which hold their slots
    work = Work(f"local[{slots}]", str(tmp_path / "files"), str(tmp_path), pipelines)
    with driver(work) as process:
        marks = [held_mark(tmp_path, each) for each in pipelines]
        await_marks(process, work, marks, few=len(marks))
        senders = [
            held_mark(tmp_path, each).read_text() for each in pipelines if each.way == "here"
        ]
        assert set(senders) == {str(process.pid)}
    unheld = [replace(each, stop_at="") for each in pipelines]
    later = replace(work, master="local[2]", pipelines=unheld)
    commits = [tmp_path / f"checkpoint-{each.topic}/commits/1" for each in pipelines]
    with driver(later) as process:
        await_marks(process, later, commits, few=1)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(random.Random(8).uniform(0, 0.5))
    finish(later)
    check(clusters, work)


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(8))
def test_a_driver_is_killed_again_and_again(
    three: EmbeddedCluster, kafka4: ApacheKafka, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    clusters: dict[str, Cluster] = {"ours": three, "kafka": kafka4}
    pipelines = []
    for name, cluster in clusters.items():
        cluster.create_topic(f"{name}-again-{seed}", PARTITIONS)
        pipelines.append(Pipeline(cluster.bootstrap_servers, f"{name}-again-{seed}"))
    work = Work("local[2]", str(tmp_path / "files"), str(tmp_path), pipelines)
    for number in range(FILES):
        rows_to(tmp_path / "files", range(number, number + 1), WIDE)
        with driver(work) as process:
            begun = [tmp_path / f"checkpoint-{each.topic}/offsets/{number}" for each in pipelines]
            await_marks(process, work, begun, few=1)
            try:
                process.wait(chance.uniform(0, 5))  # else it is killed
            except subprocess.TimeoutExpired:
                pass
    finish(work)
    check(clusters, work)
