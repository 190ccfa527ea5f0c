"""Does what we publish install in an empty virtualenv, and work there without the repository?

A wheel and an sdist are built, the wheel is installed as a user would, from the registry's
packages, and the commands are run in a directory that knows nothing of this one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sexton.cli.registry import COMMANDS

ROOT = Path(__file__).parents[2]
SEGMENTS = ROOT / "tests/data/kafka-4.3.1"
UV = Path(sys.executable).with_name("uv")
OTHER_PYTHONS = ("3.12", "3.13", "3.14")
pytestmark = pytest.mark.xdist_group("install")


@dataclass(frozen=True, slots=True)
class Installed:
    """An empty virtualenv with sexton in it."""

    place: Path

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        python = self.place / "bin/python"
        answer = subprocess.run(
            [python, "-I", *words], cwd=self.place, capture_output=True, text=True, timeout=300,
            check=False, env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
        )  # fmt: skip
        assert answer.returncode == code, answer.stdout + answer.stderr
        return answer

    def sexton(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "sexton.cli.main", *words, code=code)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("built")
    subprocess.run(
        [UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable,
         "--out-dir", place, ROOT],
        check=True, timeout=300,
    )  # fmt: skip
    return place


def install(wheel: Path, place: Path, python: str) -> Installed:
    quiet = [str(UV), "--quiet", "--system-certs"]
    subprocess.run([*quiet, "venv", "--python", python, str(place)], check=True, timeout=120)
    into = ["pip", "install", "--python", str(place / "bin/python"), str(wheel)]
    subprocess.run([*quiet, *into], check=True, timeout=300)
    return Installed(place)


@pytest.fixture(scope="module")
def lean(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    (wheel,) = built.glob("*.whl")
    place = tmp_path_factory.mktemp("lean") / "venv"
    yield install(wheel, place, sys.executable)
    shutil.rmtree(place)


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"sexton"}
    assert "sexton/py.typed" in names
    assert not [name for name in names if name.endswith((".pyc", ".so"))]
    locks = {Path(name).name for name in names if name.endswith(".lock")}
    assert locks == {path.name for path in (ROOT / "src/sexton").rglob("*.lock")}


def test_the_sdist_can_be_tested(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"src/sexton/__init__.py", "tests/conftest.py", "README.md", "LICENSE"} <= inside
    # `make test` there: what makes the virtualenv, and what tests import and read.
    assert {
        "Makefile",
        "tools/setup.sh",
        "requirements/dev.txt",
        "benchmarks/__init__.py",
    } <= inside
    assert {"docs/start.md", "mkdocs.yml", "CHANGELOG.md", "SECURITY.md"} <= inside
    assert not [name for name in inside if name.endswith(".pyc") or ".venv" in name]


def test_a_lean_install_brings_no_spark_and_no_client(lean: Installed) -> None:
    code = (
        "from importlib.util import find_spec\n"
        "print([p for p in ('pyspark', 'pandas', 'confluent_kafka', 'rocksdict') if find_spec(p)])"
    )
    assert lean.run("-c", code).stdout.strip() == "[]"


def test_every_command_has_help_there(lean: Installed) -> None:
    """Imports every command's module in one process."""
    code = (
        "from sexton.cli.main import main\n"
        "from sexton.cli.registry import COMMANDS\n"
        "for entry in COMMANDS:\n"
        "    assert main([*entry.path.split(), '--help']) == 0, entry.path\n"
    )
    assert lean.run("-c", code).stdout.count("Usage: sexton") == len(COMMANDS)


def test_log_tools_work_there(lean: Installed) -> None:
    answer = json.loads(lean.sexton("log", "stats", str(SEGMENTS), "--format", "json").stdout)
    assert answer["summary"]["records"] > 0


def test_a_scenario_of_the_lab_runs_there(lean: Installed) -> None:
    told = lean.sexton("lab", "run", "tombstone-divergence", "--on", "sim").stdout
    assert "tombstone-divergence" in told


CLIENT = ("confluent-kafka: is not installed", 'pip install "sexton[retry]"')
ROCKSDB = ("rocksdict: is not installed", 'pip install "sexton[stores]"')


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ("demo", *CLIENT),
        ("lab run stale-disk", CLIENT[0], f"{CLIENT[1]}, or choose --on sim, which needs nothing"),
        (
            "lab run stale-disk --on moon",
            "--on moon: is not a place to run it",
            "sim, embedded, kafka or",
        ),
        ("lab run eos-checkpoint", *ROCKSDB),
        ("lab run eos-checkpoint --on kafka", *ROCKSDB),
        ("lab run eos-streams --on kafka", *CLIENT),
        ("lab run eos-offsets --on moon", "--on moon: eos-offsets is not played there", "choose"),
    ],
)
def test_what_lacks_is_said_in_one_sentence_and_before_anything_is_begun(
    lean: Installed, words: str, error: str, hint: str
) -> None:
    told = lean.sexton(*words.split(), code=2)
    first, second = told.stderr.splitlines()
    assert first == f"error: {error}" and second.startswith(f"hint: {hint}")
    assert told.stdout == ""


def test_an_application_without_its_database_does_not_begin(lean: Installed) -> None:
    told = lean.run("-c", APPLICATION, code=1)
    assert told.stdout == ""
    assert 'rocksdict: is not installed (pip install "sexton[stores]"' in told.stderr


APPLICATION = """
from sexton.stores import App, Task
from sexton.testing import EmbeddedCluster

with EmbeddedCluster(brokers=1) as kafka:
    kafka.create_topic("words", 1)
    task = Task("counts", input="words", process=lambda key, value, store: [])
    with App("counting", [task], bootstrap_servers=kafka.bootstrap_servers):
        print("it runs")
"""


@pytest.mark.parametrize(
    ("names", "extra"),
    [
        ("from sexton.spark import exactly_once", "spark"),
        ("from sexton.spark import SextonSource", "spark"),
        ("from sexton.retry import OrderedRetry", "retry"),
    ],
)
def test_in_a_program_the_last_line_says_it(lean: Installed, names: str, extra: str) -> None:
    told = lean.run("-c", names, code=1).stderr.splitlines()[-1]
    assert told.endswith(f'is not installed (pip install "sexton[{extra}]")')


def python_called(name: str) -> str | None:
    """A name on the PATH proves little (version managers leave shims behind), so it is asked."""
    try:
        answer = subprocess.run(
            [name, "-c", "import sys; print(sys.executable)"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


@pytest.mark.parametrize("says", ["exit 127", 'exec python3.99 "$@"'])
def test_a_name_that_leads_to_no_python_is_none(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "python3.99x"
    shim.write_text(f"#!/bin/sh\n{says}\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert shutil.which(shim.name), "which is fooled"
    assert python_called(shim.name) is None
    assert python_called("python3.99y") is None
    assert python_called(sys.executable) == sys.executable


@pytest.mark.soak
@pytest.mark.parametrize("version", OTHER_PYTHONS)
def test_it_works_on_a_newer_python(built: Path, version: str, tmp_path: Path) -> None:
    found = python_called(f"python{version}")
    if found is None:
        pytest.skip(f"no python{version} on the PATH")
    (wheel,) = built.glob("*.whl")
    there = install(wheel, tmp_path / "venv", found)
    test_every_command_has_help_there(there)
    test_log_tools_work_there(there)
    test_a_scenario_of_the_lab_runs_there(there)
