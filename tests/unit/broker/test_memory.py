"""A broker's buffers come from memory that it has kept."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ROUNDS, BUFFERS, BUFFER_BYTES = 30, 4, 4 << 20
PAGE_BYTES = 4096
PROGRAM = f"""
import resource, sys
from sexton.broker.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def use():
    buffers = [b"x" * {BUFFER_BYTES} for _ in range({BUFFERS})]
use()
before = faults()
for _ in range({ROUNDS}):
    use()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that is told")
def test_pages_are_not_asked_for_again_and_again() -> None:
    once = BUFFERS * BUFFER_BYTES // PAGE_BYTES
    assert _faults("keep") < 2 * once
    assert _faults("as it is") > ROUNDS * once // 2  # else there is nothing to be won here


def _faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
