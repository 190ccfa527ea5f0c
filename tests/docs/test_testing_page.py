"""What the how-to pages show in Python runs, in a project of its own that has sexton.

Each `python` block there is a file; its first line says which.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.pytest_apart import pytest_apart

ROOT = Path(__file__).parent.parent.parent
NAMES = (
    "test-with-kafka.md",
    "read-one-replica.md",
    "see-replicas-diverge.md",
    "read-with-spark.md",
    "exactly-once-with-spark.md",
    "prove-your-pipeline.md",
)
PAGES = [ROOT / "docs" / "how-to" / name for name in NAMES]
TEXT = "".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCK = re.compile(r"^```python\n# (?P<name>\w+\.py)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {match["name"]: match["code"] for match in BLOCK.finditer(TEXT)}
SPARK = {"conftest.py", *(name for name in FILES if name.startswith("test_spark"))}


def run_pytest(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in a project of its own."""
    (directory / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return pytest_apart(directory, *arguments)


def test_every_example_says_which_file_it_is() -> None:
    assert TEXT.count("```python") == len(FILES) >= 17


def test_the_examples_pass(tmp_path: Path) -> None:
    for name, code in FILES.items():
        if name not in SPARK:
            (tmp_path / name).write_text(code, encoding="utf-8")
    run = run_pytest(tmp_path, "-q", "-s")
    assert run.returncode == 0, run.stdout + run.stderr
    for shown in PRINTED.findall(TEXT):
        assert shown in run.stdout
    assert re.search(r"^16 passed", run.stdout, re.MULTILINE), run.stdout


@pytest.mark.xdist_group("spark")
def test_the_examples_with_spark_pass(tmp_path: Path) -> None:
    for name in SPARK:
        (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    run = run_pytest(tmp_path, "-q")
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^8 passed", run.stdout, re.MULTILINE), run.stdout
