from __future__ import annotations

import socket
import tomllib
from pathlib import Path

import pytest

from sexton.base import extras
from sexton.cli import doctor
from sexton.cli.failures import failure_of
from tests.conftest import RunSexton

ROOT = Path(__file__).parents[3]


def works(answer: object) -> dict[str, bool]:
    assert isinstance(answer, dict)
    return {row["part"]: row["works"] for row in answer["checks"]}


def test_all_that_the_tests_need_works_here(run_sexton: RunSexton) -> None:
    """Ports aside: something else may listen there."""
    told = works(run_sexton("doctor", "--format", "json").json)
    assert {part for part, well in told.items() if not well} <= {"ports", "kernels"}
    assert len(told) == len(doctor.CHECKS)


def test_java_that_is_not_there_is_named_with_the_remedy(
    run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    run = run_sexton("doctor", "--format", "json")
    (finding,) = (f for f in run.json["findings"] if f["where"] == "java")
    assert finding["severity"] == "note"
    assert str(tmp_path) in finding["message"]
    assert "Java 17" in finding["remedy"]
    assert run.json["exit_code"] == 0, "sexton itself works without"


def test_a_full_disk_is_a_warning(run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LEAST_DISK_BYTES", 1 << 60)
    run = run_sexton("doctor", "--format", "json")
    assert [f["severity"] for f in run.json["findings"] if f["where"] == "disk"] == ["warning"]
    assert run.json["exit_code"] == 1


def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        monkeypatch.setattr(doctor, "BROKER_PORTS", range(port, port + 1))
        assert doctor.ports().found == f"taken: {port}"
    assert doctor.ports().lacks is None


def test_a_package_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "sexton_has_no_such_part", "spark")
    check = doctor.Check("absent", "nothing", doctor.package("sexton_has_no_such_part"))
    verdict = doctor._looked(check)
    assert verdict.lacks is not None and "sexton-has-no-such-part" in verdict.lacks
    assert verdict.remedy == 'pip install "sexton[spark]"'


def test_every_extra_that_is_named_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package, extra in extras.EXTRAS.items():
        wanted = project["optional-dependencies"][extra]
        assert any(each.startswith(package.replace("_", "-")) for each in wanted), package


def test_an_import_that_fails_says_what_to_install() -> None:
    error = ModuleNotFoundError("No module named 'rocksdict'", name="rocksdict")
    failure = failure_of(error)
    assert (failure.kind, failure.exit_code) == ("missing", 2)
    assert failure.hint == 'pip install "sexton[stores]"'
