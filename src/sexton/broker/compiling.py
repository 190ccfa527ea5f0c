"""Compiled code for cleaning, before the first log is cleaned.

Kernels are compiled once on each machine, which takes some seconds. The compiler holds Python's
lock for most of that time: if it ran in this process, brokers would miss their heartbeats and take
each other for dead. So it runs in a process of its own, and here one waits for it.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache


@cache
def have_kernels() -> None:
    """Returns when everything that cleaning needs is compiled; call it from a thread."""
    import sexton.log.cleaner  # noqa: F401  with the modules of its kernels
    from sexton.records.machine_code import cache_directory
    from sexton.records.native import KERNELS

    if all((cache_directory() / f"{kernel.name}.o").exists() for kernel in KERNELS):
        return
    # If this fails, for instance where nothing can be kept, the first pass compiles for itself.
    command = [sys.executable, "-m", "sexton.cli.main", "warmup"]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
