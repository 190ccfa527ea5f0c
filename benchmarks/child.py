"""Runs a program and prints what it cost: `python child.py COMMAND...`.

A process of its own because of how Linux counts: the peak memory of a program begins with that of
the process that started it, and the one that runs benchmarks holds a gigabyte. This one is small,
which is why it imports so little.
"""

import os
import sys
import time

_RSS_UNIT = 1024  # Linux counts peak memory in KiB


def main(command: list[str]) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    silence = [(os.POSIX_SPAWN_DUP2, nowhere, 0), (os.POSIX_SPAWN_DUP2, nowhere, 1)]
    start = time.perf_counter()
    process = os.posix_spawn(command[0], command, os.environ, file_actions=silence)
    _, status, usage = os.wait4(process, 0)
    wall = time.perf_counter() - start
    cpu = usage.ru_utime + usage.ru_stime
    print(os.waitstatus_to_exitcode(status), cpu, wall, usage.ru_maxrss * _RSS_UNIT)


if __name__ == "__main__":
    main(sys.argv[1:])
