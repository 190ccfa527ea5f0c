"""A lab run that somebody ends with Ctrl-C, in a directory where one sees what is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def interrupted(temporary: Path, *where: str, nodes: int = 0) -> int:
    """How `lab run` ends if somebody has seen enough; `nodes` processes have run till then."""
    command = [sys.executable, "-m", "sexton.cli.main", "lab", "run", "stale-disk", *where]
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("2. an image"):  # there is one on disk now
                assert any(temporary.iterdir())
                assert len(processes_with(f"{temporary}/")) >= nodes
                process.send_signal(signal.SIGINT)
                break
        process.stdout.read()
        return process.wait(60)


def processes_with(text: str) -> list[str]:
    """Those whose command line has it somewhere."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended while we looked
        if text in line:
            found.append(line)
    return found
