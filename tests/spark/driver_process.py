"""A Spark driver as a process of its own, with its Java: to be killed, and its last words read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def driver(module: str, place: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """What it says is in `place`, and it does not outlive the block."""
    environment = {**os.environ, "TMPDIR": str(place), "SPARK_LOCAL_DIRS": str(place / "local")}
    with (place / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Java, too: it is in the same group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended, and so has its Java
    process.wait()


def said(place: Path) -> str:
    return (place / "driver.log").read_text(errors="replace")[-4000:]
