"""Who cleans up when we cannot?

A test run ends in many ways: it returns, it fails, someone presses Ctrl-C, the kernel kills it.
Only another process can clean up after the last one, so it cleans up after all of them. It holds
one end of a pipe; whatever becomes of us, the kernel closes the other end, and then it kills the
process group of the nodes and removes their directory:

    us ──pipe──▶ worker ──SIGKILL──▶ process group { anchor, node, node, ... }
                        ──rmtree───▶ directory

The anchor is a process that does nothing: it keeps the group's number from being given to others
while the nodes come and go. (PR_SET_PDEATHSIG would do without a pipe, but it fires when the
*thread* that started a node ends, it exists on Linux only, and it removes no directory.)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

GIVE_UP_S = 10.0  # a killed JVM is gone in milliseconds; a hung disk must not hold us for ever


class Reaper:
    """Kills what joined `group` and removes `directory`, at `close` or when this process ends."""

    def __init__(self, directory: Path | None) -> None:
        command = [sys.executable, "-I", "-S", __file__, str(directory or "")]
        self._anchor = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
        self.group = self._anchor.pid

    def close(self) -> None:
        """Clean up now; returns when no process and no directory is left."""
        assert self._anchor.stdin is not None and self._anchor.stdout is not None
        self._anchor.stdin.close()
        self._anchor.wait()  # the worker kills it, and waits until nobody of the group is left
        self._anchor.stdout.read()  # the worker holds the other end until it is done
        self._anchor.stdout.close()


def _main(directory: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # those were meant for the test run
    group = os.getpid()
    if os.fork() != 0:
        os.close(0)
        os.close(1)  # only the worker may hold the pipes, or nobody would see them close
        while True:
            signal.pause()
    os.setpgid(0, 0)  # out of the group it is going to kill
    while os.read(0, 4096):
        pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    _await_empty(group)
    if directory:
        _remove(directory)


def _await_empty(group: int) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while _anyone_alive(group) and time.monotonic() < deadline:
        time.sleep(0.005)


def _anyone_alive(group: int) -> bool:
    """A killed process counts as gone, though its parent may not have buried it yet."""
    try:
        os.killpg(group, 0)  # finds those too
    except ProcessLookupError:
        return False
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, process_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it ended while we looked
        if int(process_group) == group and state not in "ZX":
            return True
    return not Path("/proc/self/stat").exists()  # without /proc we can only believe killpg


def _remove(directory: str) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while Path(directory).is_dir() and time.monotonic() < deadline:
        # Again and again, should a dying node still write while its files are being removed.
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _main(sys.argv[1])
