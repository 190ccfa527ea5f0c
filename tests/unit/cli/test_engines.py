"""Where are partitions read, if nobody says?"""

from __future__ import annotations

from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.cli import engines
from sexton.cli.engines import THIS_MACHINE, Engine, engine_for


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
