"""A bounded search with atheris for bytes the decoder cannot bear; `make soak` searches longer.

Where atheris has no build (its requirement in pyproject.toml says where it has), the same checks
run on Hypothesis' inputs in tests/property/test_damaged_segments.py, and that is all.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def atheris_is_required_here() -> bool:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = map(Requirement, pyproject["dependency-groups"]["dev"])
    (atheris,) = (each for each in requirements if each.name == "atheris")
    return atheris.marker is None or atheris.marker.evaluate()


needs_atheris = pytest.mark.skipif(
    not atheris_is_required_here(),
    reason="atheris has no build for this Python; Hypothesis runs the same checks",
)


def fuzz(seconds: int, directory: Path, *options: str, target: str = "fuzz_decoder") -> int:
    """How many inputs were tried, all of them well."""
    command = [sys.executable, "-m", f"tests.fuzz.{target}", str(seconds), str(directory)]
    ran = subprocess.run(
        [*command, *options], capture_output=True, text=True, errors="replace", cwd=ROOT
    )
    assert ran.returncode == 0, f"{sorted(directory.glob('failed.*'))}\n{ran.stderr[-4000:]}"
    done = re.search(r"Done (\d+) runs", ran.stderr)
    assert done, ran.stderr[-1000:]
    return int(done[1])


@needs_atheris
def test_no_input_that_atheris_finds_in_ten_seconds_breaks_the_decoder(tmp_path: Path) -> None:
    assert fuzz(10, tmp_path, "-seed=1") > 500


@needs_atheris
def test_no_input_that_atheris_finds_in_ten_seconds_breaks_a_message_reader(tmp_path: Path) -> None:
    assert fuzz(10, tmp_path, "-seed=1", target="fuzz_protocol") > 500


@needs_atheris
def test_an_input_that_breaks_it_would_be_reported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import sys\n"
        "from tests.fuzz import fuzz_decoder\n"
        "def too_eager(data):\n"
        "    assert b'value 7' not in data\n"
        "fuzz_decoder.one_input = too_eager\n"
        f"fuzz_decoder.main(10, fuzz_decoder.Path({str(tmp_path)!r}), ['-seed=1'])\n",
        encoding="utf-8",
    )
    ran = subprocess.run(
        [sys.executable, str(broken)],
        capture_output=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert ran.returncode != 0
    assert list(tmp_path.glob("failed.*"))


@pytest.mark.soak
@needs_atheris
def test_no_input_that_atheris_finds_in_ten_minutes_breaks_the_decoder(tmp_path: Path) -> None:
    assert fuzz(600, tmp_path) > 50_000


@pytest.mark.soak
@needs_atheris
def test_no_input_that_atheris_finds_in_ten_minutes_breaks_a_message_reader(
    tmp_path: Path,
) -> None:
    assert fuzz(600, tmp_path, target="fuzz_protocol") > 50_000
