"""No input makes a kernel touch a byte outside its buffers: at the edge of memory, it would die."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def guarded(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.property.guarded", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_mutated_segments_at_the_edge_of_memory_are_read_without_a_fault() -> None:
    ran = guarded(1, 600)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 5_000, "rows that were decoded on the way"


@pytest.mark.parametrize("where", ["python", "kernel"])
def test_one_byte_past_the_edge_would_be_noticed(where: str) -> None:
    ran = guarded(f"overread-{where}")
    assert ran.returncode == -signal.SIGSEGV
    assert ran.stdout == ("at the edge\n" if where == "kernel" else "")


@pytest.mark.soak
def test_many_more_of_them_are_read_without_a_fault() -> None:
    seed = secrets.randbelow(2**32)
    ran = guarded(seed, 300_000)
    assert ran.returncode == 0, f"python -m tests.property.guarded {seed} 300000\n{ran.stderr}"
    assert int(ran.stdout) > 20_000
