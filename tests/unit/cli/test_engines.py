"""Where are partitions read, if nobody says?"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from sexton.base.errors import ConfigError
from sexton.cli import engines
from sexton.cli.engines import THIS_MACHINE, Engine, engine_for, interrupted_quietly, started


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, the only one on a PATH where PySpark is installed."""
    monkeypatch.setattr(engines, "find_spec", lambda _name: object())
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "java"
    program.touch(0o755)
    return program


def test_on_spark_if_it_can_start(java: Path) -> None:
    assert java.exists()
    assert engine_for(None, THIS_MACHINE) is Engine.spark


def test_here_if_there_is_no_java(java: Path) -> None:
    java.unlink()
    assert engine_for(None, THIS_MACHINE) is Engine.local


def test_here_if_java_home_is_wrong(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java.parent / "nowhere"))
    assert engine_for(None, THIS_MACHINE) is Engine.local


def test_here_if_there_is_no_pyspark(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert java.exists()
    monkeypatch.setattr(engines, "find_spec", lambda _name: None)
    assert engine_for(None, THIS_MACHINE) is Engine.local


def test_who_chooses_spark_gets_it_or_hears_what_it_lacks(java: Path) -> None:
    java.unlink()
    assert engine_for(Engine.spark, THIS_MACHINE) is Engine.spark
    assert engine_for(None, "spark://there:7077") is Engine.spark
    with pytest.raises(ConfigError, match="--master"):
        engine_for(Engine.local, "spark://there:7077")


@pytest.fixture
def py4j_logs() -> Iterator[list[logging.Logger]]:
    """As nobody has touched them, whatever ran in this process; afterwards as they were."""
    logs = [logging.getLogger(name) for name in (None, "py4j.clientserver", "py4j.java_gateway")]
    before = [list(log.filters) for log in logs]
    for log in logs:
        log.removeFilter(engines.of_no_interrupt)
    yield logs
    for log, filters in zip(logs, before, strict=True):
        log.filters[:] = filters


def after_a_ctrl_c(log: logging.Logger) -> None:
    """What py4j does: it tells of the interrupt, then of the socket that it closes for it."""
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            log.exception("KeyboardInterrupt while sending command.")
            raise BrokenPipeError from None
    except BrokenPipeError:
        log.exception("Exception while shutting down a socket")


def test_py4j_logs_no_traceback_of_a_ctrl_c(
    py4j_logs: list[logging.Logger], caplog: pytest.LogCaptureFixture
) -> None:
    for log in py4j_logs:
        after_a_ctrl_c(log)
    assert len(caplog.messages) == 6
    caplog.clear()
    interrupted_quietly()
    interrupted_quietly()  # with --watch, one audit after the other
    for log in py4j_logs:
        after_a_ctrl_c(log)
        assert log.filters.count(engines.of_no_interrupt) == 1
    assert caplog.messages == []


def test_what_else_goes_wrong_is_still_logged(
    py4j_logs: list[logging.Logger], caplog: pytest.LogCaptureFixture
) -> None:
    interrupted_quietly()
    for log in py4j_logs:
        try:
            raise ConnectionError("gone")
        except ConnectionError:
            log.exception("Exception while sending command.")
        log.warning("slow")
    assert len(caplog.messages) == 6


@pytest.fixture
def python_handles_it(py4j_logs: list[logging.Logger]) -> Iterator[None]:
    assert py4j_logs
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_handles_it")
def test_spark_is_started_where_pyspark_does_not_take_ctrl_c_for_itself() -> None:
    thread = started(threading.current_thread)
    assert thread is not threading.main_thread()


@pytest.mark.usefixtures("python_handles_it")
def test_what_goes_wrong_at_the_start_is_said() -> None:
    with pytest.raises(ConfigError, match="did not start"):
        started(lambda: (_ for _ in ()).throw(ConfigError("Spark", "did not start")))


@pytest.mark.usefixtures("python_handles_it")
def test_ctrl_c_waits_until_java_is_known_to_whoever_ends_it() -> None:
    pressed, known = threading.Event(), list[str]()

    def start() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert pressed.wait(60)
        known.append("java")

    def tell(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, tell)
    with pytest.raises(KeyboardInterrupt):
        started(start)
    assert known == ["java"]
