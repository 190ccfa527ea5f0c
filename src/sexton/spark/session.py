"""A Spark session for our commands: quiet, on this machine or any master, or a word why not.

Spark as pip installs it is a Python package around a Java program. Both are looked for before
anything is started, and what Java says while it starts goes to a file: if it does not come up, the
end of that file is part of the error; if it does, nobody has to read three screens of warnings.

    Python (driver) ──py4j──▶ Java (driver) ──▶ Python workers, one for each core in use

Workers are Pythons of their own and must be the one that has sexton: without PYSPARK_PYTHON Spark
takes whatever `python3` is. On a cluster the executors need sexton installed, too.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sexton.base.errors import ConfigError, Missing
from sexton.base.extras import need
from sexton.base.java import JAVA_REMEDY, java_path

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

NEEDED = ("pyspark", "pyarrow", "pandas")
# Arrow batches on their way to Python: by rows alone, one batch of large values is hundreds of MB.
ARROW_BATCH_BYTES = 16 << 20
_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT = (1 << 31) - 1
_LAST_LINES = 15
_STOP_S = 30
_ANSWER_S = 5.0
_STANDALONE = "spark://"
# Starting and planning is a lot of code that runs once: compiled quickly it takes 14 s of CPU
# instead of 23 to the first job's end.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    _ARROW_BYTES: str(ARROW_BATCH_BYTES),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
ON_THIS_MACHINE = {  # nobody else has to reach the driver
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextmanager
def spark_session(
    master: str | None = None,
    *,
    app: str = "sexton",
    settings: Mapping[str, str] | None = None,
    optimize: bool = False,
) -> Iterator[SparkSession]:
    """A session that ends with the block; one that was there before is used and left as it is.

    `master` is Spark's (`local[4]`, `spark://host:7077`); None takes SPARK_MASTER, or all cores of
    this machine. `settings` are Spark's own and go before ours. Where Java itself has to work for
    minutes, `optimize` lets it compile as well as it can; our own tasks work in Python.
    """
    find_spark()
    running = _running()
    if running is not None:
        yield running
        return
    with tempfile.TemporaryDirectory(prefix="sexton-spark-", ignore_cleanup_errors=True) as place:
        chosen = master or os.environ.get("SPARK_MASTER") or "local[*]"
        _find_master(chosen)
        session = _start(chosen, app, settings or {}, Path(place), "" if optimize else BRIEF)
        try:
            yield session
        finally:
            _stop(session)


def _running() -> SparkSession | None:
    """PySpark's active one is that of a thread; another thread finds it by Spark's one context."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    return active


@contextmanager
def setting(spark: SparkSession, name: str, value: object) -> Iterator[None]:
    """For a while; then it is as it was."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, str(value))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def make_known(spark: SparkSession, source: type[DataSource]) -> None:
    """To this session, by the name of its `format`.

    Spark looks whether that is taken in the session that is active, whichever it is to be known to:
    what one session of a driver knows, the next one could neither use nor register.
    """
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        with _active(spark):
            spark.dataSource.register(source)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    sessions: Any = type(spark)._get_j_spark_session_class(spark._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def arrow_batches_of(spark: SparkSession, rows: int) -> Iterator[None]:
    """Batches on their way to Python have at most so many rows, whatever their size.

    With a limit in bytes, Spark works out the size of a batch anew after every row: a quarter of
    what a task does. Whoever knows how large rows are does without.
    """
    most = int(spark.conf.get(_ARROW_ROWS) or 0)
    with (
        setting(spark, _ARROW_ROWS, min(rows, most) if most > 0 else rows),
        setting(spark, _ARROW_BYTES, _NO_LIMIT),
    ):
        yield


def find_spark() -> None:
    """Missing, with what to install, if Spark cannot be started here."""
    need(*NEEDED)
    _java()


def _java() -> Path:
    """The one that Spark would start."""
    return java_path(os.environ.get("JAVA_HOME"))


def _find_master(master: str) -> None:
    """Spark would start, ask for a minute, and end with its job in the middle."""
    if not master.startswith(_STANDALONE):
        return
    for place in master.removeprefix(_STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _ANSWER_S).close()
        except (OSError, ValueError):
            continue
        return
    raise ConfigError("Spark", f"no master answers at {master}", "is it right, and is it up?")


def _start(
    master: str, app: str, settings: Mapping[str, str], place: Path, java: str
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    logging = place / "log4j2.properties"
    logging.write_text(QUIET, encoding="ascii")
    said = place / "java.log"
    all_settings = {
        "spark.master": master,
        "spark.app.name": app,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()} {java}",
        "spark.executor.extraJavaOptions": java,
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        **SETTINGS,
        **(ON_THIS_MACHINE if master.startswith("local") else {}),
        **settings,
    }
    conf = SparkConf().setAll(list(all_settings.items()))
    try:
        with said.open("wb") as log:
            gateway = _launched(conf, log)
        context = SparkContext(conf=conf, gateway=gateway)
    except BaseException as error:
        _end_java()
        if not isinstance(error, Exception):
            raise  # interrupted: nobody wants to know why it did not start
        # PySpark's own, and whatever py4j makes of Java's.
        raise _not_started(said, error) from None
    return SparkSession(context)


def _launched(conf: SparkConf, log: BinaryIO) -> Any:
    """Java, when it has come up.

    By a thread, which no interrupt reaches: PySpark would forget a Java that is on its way, and
    that would live for as long as we do. So it is waited for, and ended.
    """
    from pyspark.java_gateway import launch_gateway

    with ThreadPoolExecutor(1, "sexton-java") as thread:
        launching = thread.submit(launch_gateway, conf, {"stdout": log, "stderr": log})
        try:
            return launching.result()
        except BaseException:
            launching.add_done_callback(_end_launched)  # whoever is in a hurry interrupts twice
            raise


def _end_launched(launching: Future[Any]) -> None:
    if launching.exception() is None:
        _end(launching.result())


def _stop(session: SparkSession) -> None:
    """Ends the session and its Java; PySpark alone would keep Java until Python ends."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext

    try:
        session.stop()
    except (OSError, Py4JError):
        # Java has died before (for want of memory, say), which whoever used it has been told. The
        # next session is another one.
        SparkContext._active_spark_context = None
    finally:
        _end_java()


def _end_java() -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = None
    SparkContext._jvm = None
    _end(gateway)


def _end(gateway: Any) -> None:
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _not_started(said: Path, error: Exception) -> ConfigError:
    text = said.read_text(encoding="utf-8", errors="replace") if said.exists() else ""
    if "UnsupportedClassVersionError" in text or "Unrecognized option" in text:
        return Missing("Java", f"{_java()} is too old for Spark", JAVA_REMEDY)
    java = getattr(error, "java_exception", None)
    why = java.getMessage() if java is not None else _complaint(text) or str(error)
    return ConfigError("Spark", f"did not start: {why.strip()}", "is the master right?")


def _complaint(text: str) -> str:
    """What Java died of, without the way it went there."""
    said = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    thrown = [line.partition("Exception: ")[2] for line in said if "Exception: " in line]
    return thrown[0] if thrown else "\n  ".join(said[-_LAST_LINES:])
