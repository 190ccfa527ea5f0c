"""The `sexton` command as a user has it: installed beside this Python, its kernels compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.measure import usual_environment


def sexton(*arguments: str) -> list[str]:
    """The console script that was installed beside this Python."""
    return [str(Path(sys.executable).with_name("sexton")), *arguments]


def warm_up(*commands: list[str]) -> None:
    """What the first use of an installation does: compile kernels, and bytecode for `commands`."""
    for command in (sexton("warmup"), *commands):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=usual_environment())
