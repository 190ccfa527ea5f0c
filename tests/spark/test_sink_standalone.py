"""Executors that are processes of their own, and what may happen to them while a batch is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.spark.sink_driver import Pipeline, Work
from tests.spark.sink_faults import ROWS, WIDE, committed, rows_to, trouble
from tests.spark.test_sink_kills import finish
from tests.spark.test_standalone import daemon

PARTITIONS = 3
FAULTS = ("executors", "task", "files", "slow", "zombie", "wake")  # a batch for each
SHORT_FAULTS = {"1": "executors", "3": "task"}  # after the first, batches go through one task
BY_BATCH = {str(number): fault for number, fault in enumerate(FAULTS)}
SETTINGS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",  # two executors
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    # A task that takes long gets a copy, even if it is the only one.
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.task.duration.threshold": "3s",
}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and two workers on hosts of their own: Spark wants another one for a copy."""
    ports = ["--port", "0", "--webui-port", "0"]
    with ExitStack() as running:
        log = running.enter_context(
            daemon(
                tmp_path, "master", "org.apache.spark.deploy.master.Master",
                "--host", "127.0.0.1", *ports,
            )
        )  # fmt: skip

        def address() -> str | None:
            text = log.read_text(errors="replace")
            found = re.search(r"Starting Spark master at (spark://\S+)", text)
            return None if found is None else found[1]

        master = until(address, "the master")
        for host in ("127.0.0.1", "127.0.0.2"):
            running.enter_context(
                daemon(
                    tmp_path, f"worker-{host}", "org.apache.spark.deploy.worker.Worker",
                    "--host", host, *ports, "--cores", "1", "--memory", "600m",
                    "--work-dir", str(tmp_path / "work" / host), master,
                )
            )  # fmt: skip
        yield master


def run(master: str, clusters: dict[str, Cluster], place: Path) -> None:
    """The pipelines of all clusters, one after the other, by one driver."""
    pipelines = []
    for name, cluster in clusters.items():
        cluster.create_topic(f"{name}-chaos", PARTITIONS)
        cluster.create_topic(f"{name}-shared", 1)
        chaos = Pipeline(cluster.bootstrap_servers, f"{name}-chaos", faults=BY_BATCH)
        pipelines.append(chaos)
        cluster.create_topic(f"{name}-short", PARTITIONS)
        short = replace(chaos, topic=f"{name}-short", faults=SHORT_FAULTS, way="short")
        pipelines.append(short)
        # The control: one of these faults, and one epoch for all attempts at the batch. The first
        # has sent few batches by then: what repeats one of the last five is not refused. Each goes
        # by itself, so that the first of them has been taken when it fails.
        pipelines.append(
            replace(
                short, topic=f"{name}-shared", faults={"1": "task"}, files_at_once=3,
                rules="shared", after=4, requests_of=None,
            )
        )  # fmt: skip
    rows_to(place / "files", range(len(FAULTS)), WIDE)
    finish(Work(master, str(place / "files"), str(place), pipelines, SETTINGS))
    for name, cluster in clusters.items():
        topic = f"{name}-chaos"
        for each in (topic, f"{name}-short"):
            assert trouble(committed(cluster, each, PARTITIONS), len(FAULTS) * ROWS) == []
        assert all((place / f"{name}-short-{fault}").exists() for fault in SHORT_FAULTS.values())
        wrong = trouble(committed(cluster, f"{name}-shared", 1), len(FAULTS) * ROWS)
        assert {"lost", "twice"} <= {line.partition(":")[0] for line in wrong}
        marks = {path.name.removeprefix(f"{topic}-") for path in place.glob(f"{topic}-*")}
        assert marks >= {*FAULTS, "woken"}
        # Who was stopped went on, in vain: another one has sent the batch, and not this one.
        zombie = (place / f"{topic}-zombie-pid").read_text()
        assert (place / f"{topic}-sent-zombie").read_text() != zombie


@pytest.mark.kafka
def test_senders_are_killed_stopped_copied_and_robbed(
    master: str, three: EmbeddedCluster, kafka4: ApacheKafka, tmp_path: Path
) -> None:
    run(master, {"ours": three, "kafka": kafka4}, tmp_path)


@pytest.mark.soak
def test_several_senders_are_killed_and_begin_again(
    master: str, three: EmbeddedCluster, tmp_path: Path
) -> None:
    three.create_topic("barrier-chaos", PARTITIONS)
    faults = {"0": "executors", "1": "task", "2": "files"}
    pipeline = Pipeline(
        three.bootstrap_servers, "barrier-chaos", faults=faults, senders=2,
        after=1, requests_of=None,  # as one of the two may have few batches
    )  # fmt: skip
    rows_to(tmp_path / "files", range(4))
    finish(Work(master, str(tmp_path / "files"), str(tmp_path), [pipeline], SETTINGS))
    assert trouble(committed(three, "barrier-chaos", PARTITIONS), 4 * ROWS) == []
    marks = {path.name.removeprefix("barrier-chaos-") for path in tmp_path.glob("barrier-chaos-*")}
    assert marks >= {"executors", "task", "files"}
