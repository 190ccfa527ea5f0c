"""Runs the lines of a block for a shell as a reader would type them, one after the other.

What `sexton` alone is asked to do is called in this process, which takes a tenth of the time. A
command that stays is a process of its own: it is done when it has said something, and is then
interrupted; `sexton up` only at the end of the page, since the lines after it need it. All else
goes to bash. Three options are added where nobody is there to be asked or waited for: `--yes` to
what asks first, `--engine local` to what would start Spark, `--port 0` to what would listen on
9092.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from sexton.cli.main import main
from tests.docs.blocks import Block

TIMEOUT_S = 120
STAYS = ("sexton up", "sexton guard run", "--watch", "--follow")
FOR_BASH = ("|", "||", "&&", ";", ">", "<")
FINE = (0, 1)  # 1: something was found, which many of these commands are shown for
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    stdout: str
    stderr: str
    fine_codes: tuple[int, ...] = FINE

    @property
    def fine(self) -> bool:
        """It did what it is for: nothing was wrong with how it was called or with the world."""
        return self.code in self.fine_codes and not self.stderr.startswith("error:")


def lines(block: Block) -> Iterator[str]:
    """What is typed."""
    return (line for line, _ in with_output(block))


def with_output(block: Block) -> list[tuple[str, tuple[str, ...]]]:
    """What is typed, without remarks, and what is printed then, if that is shown."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language == "console" and not line.startswith("$ "):
            if found:
                found[-1] = (found[-1][0], (*found[-1][1], line))
        elif shlex.split(line.removeprefix("$ "), comments=True):
            found.append((re.split(r"\s+# ", line.removeprefix("$ "))[0].strip(), ()))
    return found


@dataclass(slots=True)
class Shell:
    here: Path
    path: str = ""  # where else bash finds programs
    up: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, line: str) -> Said:
        if any(word in line for word in STAYS) and "--once" not in line:
            return self._staying(line)
        words = shlex.split(line)
        if words[0] == "sexton" and not any(each in words for each in FOR_BASH):
            return _called([*words[1:], *_added(words)])
        return self._bash(line)

    def close(self) -> None:
        for process in self.up:
            _interrupt(process)
        self.up.clear()

    def _bash(self, line: str) -> Said:
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"], cwd=self.here, env=self._environment(),
            input="secret\nsecret\n", capture_output=True, text=True, check=False,
            timeout=TIMEOUT_S,
        )  # fmt: skip
        fine = FINE if "sexton " in line else (0,)
        return Said(done.returncode, done.stdout, done.stderr, fine)

    def _staying(self, line: str) -> Said:
        if line.startswith("sexton up"):
            self.close()
        words = shlex.split(line)
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                [str(BIN / "sexton"), *words[1:], *_added(words)], cwd=self.here,
                env=self._environment(), stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
            assert process.stdout is not None
            first = process.stdout.readline()
            if line.startswith("sexton up") and first:
                self.up.append(process)
                return Said(0, first, "")
            code = _interrupt(process)
            errors.seek(0)
            return Said(0 if first and code == 130 else code, first, errors.read())

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(BIN), *filter(None, [self.path]), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}


def _interrupt(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    return process.returncode


def _added(words: list[str]) -> list[str]:
    added: list[str] = []
    if words[1] in ("audit", "validate") and "--engine" not in words:
        added += ["--engine", "local"]
    if _asks(words) and "--yes" not in words:
        added += ["--yes"]
    if words[1] == "up" and "--port" not in words:
        added += ["--port", "0"]
    return added


def _asks(words: list[str]) -> bool:
    if words[1] == "repair":
        return "--dry-run" not in words
    risked = {"topics": "--delete", "elect": "--unclean", "abort": "--force"}
    return words[1:3] == ["guard", "panic"] or risked.get(words[2] if words[2:] else "") in words


def _called(arguments: list[str]) -> Said:
    """In this process, as if piped."""
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(stdout), redirect_stderr(stderr):
        code = main(arguments)
    for stream in (stdout, stderr):
        stream.seek(0)
    return Said(code, stdout.read(), stderr.read())
