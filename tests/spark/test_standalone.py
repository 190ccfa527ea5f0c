"""Does it work where executors are processes of their own, started by a Spark master?"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import Producer

from sexton.spark.session import BRIEF
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.java import find_java
from sexton.testing.waiting import until

ROOT = Path(__file__).parent.parent.parent
JARS = Path(pyspark.__file__).parent / "jars"


@contextmanager
def daemon(place: Path, name: str, main: str, *arguments: str) -> Iterator[Path]:
    """One of Spark's own processes; gives its log."""
    log = place / f"{name}.log"
    environment = {
        **os.environ,
        "SPARK_HOME": str(JARS.parent),
        "SPARK_SCALA_VERSION": "2.13",
        "PYTHONPATH": str(ROOT),  # for tests.spark.jobs; sexton itself is installed
    }
    command = [
        str(find_java().path),
        "-Xmx256m",
        *BRIEF.split(),
        "-cp",
        f"{JARS}/*",
        main,
        *arguments,
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=place)
    try:
        yield log
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and one worker with two cores; executors take what the driver asks for."""
    host = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as running:
        log = running.enter_context(
            daemon(tmp_path, "master", "org.apache.spark.deploy.master.Master", *host)
        )
        found: list[str] = []

        def started() -> bool:
            text = log.read_text(errors="replace")
            found[:] = re.findall(r"Starting Spark master at (spark://\S+)", text)
            return bool(found)

        until(started, "the master")
        worker = [*host, "--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work")]
        running.enter_context(
            daemon(tmp_path, "worker", "org.apache.spark.deploy.worker.Worker", *worker, found[0])
        )
        yield found[0]


def test_executors_read_replicas_validate_topics_and_run_tasks(
    master: str, three: EmbeddedCluster, tmp_path: Path
) -> None:
    three.create_topic("orders", [[1, 2, 3]])
    producer = Producer({"bootstrap.servers": three.bootstrap_servers})
    for number in range(50):
        producer.produce("orders", str(number), "key")
    three.create_topic("fallen", [[1, 2, 3]])
    for number in (108, 110, 105):
        producer.produce("fallen", str(number), "key_17")
    assert producer.flush(30) == 0
    three.wait_until(lambda: all(o.high_watermark == 50 for o in three.offsets("orders").values()))
    marks = tmp_path / "marks"
    marks.mkdir()
    command = [sys.executable, "-m", "tests.spark.on_a_cluster"]
    driver = subprocess.run(
        [*command, master, three.bootstrap_servers, str(marks)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert driver.returncode == 0, driver.stderr
    told = json.loads(driver.stdout)
    (fallen,) = told.pop("fallen")
    assert "Key: key_17, LastValue: 110, NewValue: 105" in fallen
    assert told == {
        "counted": [[1, 50], [2, 50], [3, 50]],
        "squares": [0, 1, 4, 9],
        "rising": [True, 50],
        "judged alike": [{"state-regression": 1}] * 3,
        "survived": [0, 1, 2],
    }
    assert [mark.name for mark in marks.iterdir()] == ["attempted-1"]  # it was run again, indeed
    judged_by_the_command(master, three, tmp_path)


def judged_by_the_command(master: str, cluster: EmbeddedCluster, place: Path) -> None:
    """`sexton validate --master` answers as it does without Spark: exit code, findings, report."""
    asked = [str(Path(sys.executable).parent / "sexton"), "validate", "fallen", "--format", "json"]
    asked += ["-b", cluster.bootstrap_servers, "--value", "int", "--show-keys"]
    conf = place / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.cores.max 2\nspark.executor.memory 512m\n")
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(conf)}
    told: list[dict[str, Any]] = []
    for engine in (["--master", master], ["--engine", "local"]):
        report = place / f"{len(told)}.html"
        run = subprocess.run(
            [*asked, *engine, "--html", str(report)],
            capture_output=True, text=True, check=False, timeout=600, env=environment,
        )  # fmt: skip
        assert run.returncode == 1, run.stderr
        assert "key_17" in report.read_text(encoding="utf-8")
        told.append(json.loads(run.stdout))
    on_spark, here = told
    assert "Key: key_17, LastValue: 110, NewValue: 105" in on_spark["findings"][0]["message"]
    for part in ("promises", "partitions", "findings", "incomplete", "exit_code"):
        assert on_spark[part] == here[part]
