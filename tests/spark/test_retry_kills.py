"""kill -9 of the driver of retry pipelines, while their transactions are open.

One driver has a pipeline for each of some steps, which stops there in the middle of a batch; when
all are there, it is killed. The next one takes up all of them and settles whatever waits. That an
attempt may fail at any step is in `test_retry`; here nobody ends what it has left open.
"""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.spark import driver_process, retry_driver
from tests.spark.retry_driver import ROWS, Pipeline, Work, held_mark, rows_to
from tests.spark.retry_pipelines import Outputs
from tests.spark.sink_faults import trouble

STEPS = {"sent": "ours", "marked": "kafka", "committed": "ours"}
FILES = 2
DEADLINE_S = 600.0
FEW = {"spark.sql.shuffle.partitions": "1"}


def driver(work: Work) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return driver_process.driver(retry_driver.__name__, Path(work.place), work.written_down())


def said(work: Work) -> str:
    return driver_process.said(Path(work.place))


def finish(work: Work, clusters: dict[str, Cluster], rows: int) -> None:
    """Everything is there, once and by key in order, or it is said what is not."""
    with driver(work) as process:
        for each in work.pipelines:
            outputs = Outputs(clusters[each.topic.partition("-")[0]], each.output)
            outputs.await_count(
                rows, lambda: "" if process.poll() is None else said(work), DEADLINE_S
            )
            assert trouble(outputs.seen, rows) == [], each.topic


@pytest.mark.soak
@pytest.mark.kafka
def test_a_driver_is_killed_and_leaves_transactions_open(
    three: EmbeddedCluster, kafka4: ApacheKafka, tmp_path: Path
) -> None:
    clusters: dict[str, Cluster] = {"ours": three, "kafka": kafka4}
    pipelines = []
    for step, name in STEPS.items():
        pipeline = Pipeline(clusters[name].bootstrap_servers, f"{name}-killed-{step}", step)
        for topic in (pipeline.topic, pipeline.output):
            clusters[name].create_topic(topic, 2)
        pipelines.append(pipeline)
    rows_to(tmp_path / "files", range(FILES))
    work = Work("local[2]", str(tmp_path / "files"), str(tmp_path), pipelines, FEW)
    with driver(work) as process:

        def all_there() -> bool:
            assert process.poll() is None, said(work)
            return all(held_mark(tmp_path, each).exists() for each in pipelines)

        until(all_there, "every pipeline at its step", DEADLINE_S, lambda: said(work))
    unheld = [replace(each, stop_at="") for each in pipelines]
    finish(replace(work, pipelines=unheld), clusters, FILES * ROWS)
