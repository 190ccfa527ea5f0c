"""Is it said what Spark lacks, and is nothing of it needed by those who do not use it?"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sexton.spark
from sexton.base.errors import ConfigError, Missing
from sexton.base.java import java_path
from sexton.spark.session import ARROW_BATCH_BYTES, find_spark, spark_session


def test_a_session_that_runs_is_used(spark: SparkSession) -> None:
    with spark_session("local[7]") as session:
        assert session.sparkContext is spark.sparkContext
    assert not spark.sparkContext._jsc.sc().isStopped()
    batch = spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch")
    assert batch in (str(ARROW_BATCH_BYTES), f"{ARROW_BATCH_BYTES}b")


def test_so_is_one_that_another_thread_has_started(spark: SparkSession) -> None:
    """`sexton audit` and `validate` ask for a session in a thread of their own."""

    def looked() -> bool:
        with spark_session("local[7]") as session:
            return session.sparkContext is spark.sparkContext

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(looked).result()
    assert not spark.sparkContext._jsc.sc().isStopped()


def test_every_session_of_one_spark_can_know_the_source(spark: SparkSession) -> None:
    """Spark asks the session that is active whether the name is taken, and not this one."""
    active = SparkSession.getActiveSession()
    other = spark.newSession()
    for _ in range(2):  # a notebook's cell is run again
        sexton.spark.register(other)
    reader = other.read.format("sexton").option("kafka.bootstrap.servers", "nowhere:9092")
    assert reader.option("subscribe", "orders").load().columns[0] == "key"
    assert SparkSession.getActiveSession() is active
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        spark.newSession().read.format("sexton").load()  # the control: it is not known anyway


def test_java_is_missed_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Missing, match="there is no bin/java") as caught:
        find_spark()
    assert caught.value.hint is not None and "Java 17" in caught.value.hint
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="Java: is not installed"):
        find_spark()


def test_packages_are_missed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.base.extras.find_spec", lambda _name: None)
    with pytest.raises(Missing, match="pyspark: is not installed") as caught:
        find_spark()
    assert caught.value.hint == 'pip install "sexton[spark]"'


def test_java_says_why_it_did_not_start() -> None:
    code = "from sexton.spark.session import spark_session\nwith spark_session('moon'): pass"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith(f"{ConfigError.__module__}.ConfigError: Spark: did not start: Master")
    assert "\tat " not in run.stderr


def test_a_master_that_does_not_answer_is_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    code = (
        "from sexton.spark.session import spark_session\n"
        f"with spark_session('spark://127.0.0.1:{port},nowhere.invalid:7077'): pass"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert f"Spark: no master answers at spark://127.0.0.1:{port},nowhere.invalid:7077" in last


WHEN_JAVA_STARTS = """\
#!/bin/sh
mkdir "$0.started" 2> /dev/null && kill -INT $INTERRUPTED
exec '{java}' "$@"
"""
WHEN_JAVA_IS_UP = """\
def look(frame, event, _what):
    if event == "call" and frame.f_code.co_name == "_do_init":  # of PySpark's context
        sys.setprofile(None)
        raise KeyboardInterrupt
sys.setprofile(look)
"""
INTERRUPTED = """\
import os, subprocess, sys
from sexton.spark.session import spark_session
os.environ["INTERRUPTED"] = str(os.getpid())
{when}
try:
    with spark_session("local[1]"):
        print("has started")
except KeyboardInterrupt:
    left = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True)
    print("left:", left.stdout.split())
"""


@pytest.mark.parametrize("when", ["java starts", "java is up"])
def test_whoever_is_interrupted_at_the_start_leaves_no_java_behind(
    when: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if when == "java starts":
        instead = tmp_path / "bin" / "java"
        instead.parent.mkdir()
        instead.write_text(WHEN_JAVA_STARTS.format(java=java_path(os.environ.get("JAVA_HOME"))))
        instead.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code = INTERRUPTED.format(when=WHEN_JAVA_IS_UP if when == "java is up" else "")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout == "left: []\n", run.stderr


DYING = """\
from pyspark import SparkContext
from sexton.spark.session import spark_session
try:
    with spark_session("local[1]") as session:
        SparkContext._gateway.proc.kill()
        SparkContext._gateway.proc.wait()
        raise LookupError("what came of it")
except LookupError as error:
    print(error)
with spark_session("local[1]") as session:
    print(session.range(3).count())
"""


def test_a_java_that_dies_hides_no_error_and_is_not_taken_for_the_next() -> None:
    run = subprocess.run([sys.executable, "-c", DYING], capture_output=True, text=True, check=False)
    assert run.stdout == "what came of it\n3\n", run.stderr


def test_sexton_does_without_spark() -> None:
    code = (
        "import sys; import sexton, sexton.spark, sexton.client, sexton.cli.main;"
        "sys.exit(bool({'pyspark', 'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
