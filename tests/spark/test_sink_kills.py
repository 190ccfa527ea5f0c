"""kill -9 of the driver: at every step of the protocol, and at any time.

One driver has many pipelines, one for each step and cluster. Each stops at its step in the middle
of a batch; when all are there, the driver is killed. The next one takes up all of them, and is
killed some time later, wherever they are then. The third one finishes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.spark.sink_protocol import STEPS
from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.spark.sink_driver import Pipeline, Work, held_mark
from tests.spark.sink_faults import ROWS, committed, rows_to, trouble

ROOT = Path(__file__).parents[2]
FILES = 3
PARTITIONS = 2
DEADLINE_S = 600.0  # a minute if nobody else is at work


@contextmanager
def driver(work: Work) -> Iterator[subprocess.Popen[bytes]]:
    """A driver with its Java; what it says is in `place`, and it does not outlive the block."""
    place = Path(work.place)
    environment = {**os.environ, "TMPDIR": str(place), "SPARK_LOCAL_DIRS": str(place / "local")}
    command = [sys.executable, "-m", "tests.spark.sink_driver", work.written_down()]
    with (place / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Java, too: it is in the same group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended, and so has its Java
    process.wait()


def said(work: Work) -> str:
    return (Path(work.place) / "driver.log").read_text(errors="replace")[-4000:]


def await_held(process: subprocess.Popen[bytes], work: Work) -> None:
    waiting = [held_mark(Path(work.place), each) for each in work.pipelines if each.stop_at]

    def all_there() -> bool:
        assert process.poll() is None, said(work)
        return all(mark.exists() for mark in waiting)

    until(all_there, "every pipeline at its step", DEADLINE_S, lambda: said(work))


def finish(work: Work) -> None:
    with driver(work) as process:
        assert process.wait(DEADLINE_S) == 0, said(work)


def check(clusters: dict[str, Cluster], work: Work) -> None:
    for pipeline in work.pipelines:
        cluster = clusters[pipeline.topic.partition("-")[0]]
        seen = committed(cluster, pipeline.topic, PARTITIONS)
        assert trouble(seen, FILES * ROWS) == [], pipeline.topic


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
    rows_to(tmp_path / "files", range(FILES))
    slots = len(pipelines) // 2 + 1  # half of the steps are in tasks, which hold their slots
    work = Work(f"local[{slots}]", str(tmp_path / "files"), str(tmp_path), pipelines)
    with driver(work) as process:
        await_held(process, work)
    unheld = [replace(each, stop_at="") for each in pipelines]
    later = replace(work, master="local[2]", pipelines=unheld)
    commits = [tmp_path / f"checkpoint-{each.topic}/commits/1" for each in pipelines]
    with driver(later) as process:
        until(lambda: any(mark.exists() for mark in commits), "a batch", DEADLINE_S)
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
        rows_to(tmp_path / "files", range(number, number + 1))
        with driver(work) as process:
            begun = [tmp_path / f"checkpoint-{each.topic}/offsets/{number}" for each in pipelines]
            until(lambda begun=begun: any(map(Path.exists, begun)), "a batch", DEADLINE_S)  # type: ignore[misc]
            try:
                process.wait(chance.uniform(0, 5))  # else it is killed
            except subprocess.TimeoutExpired:
                pass
    finish(work)
    check(clusters, work)
