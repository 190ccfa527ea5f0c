"""What did a piece of work cost, in a race that is fair?

Contestants take turns, round by round, so that a machine that gets busy or hot slows all of them.
Of each the best round counts: everything that disturbs a measurement makes it longer. A contestant
that has had `MOST_SECONDS` is not asked again; what runs for minutes averages its own noise.

CPU time is of the thread that works, or of whole processes; wall time is what a user waits.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import perf_counter, thread_time

from sexton.base.errors import PeerError

MOST_SECONDS = 20.0
_CHILD = Path(__file__).with_name("child.py")


class By(StrEnum):
    """What two measures are compared by."""

    CPU = "CPU"
    WALL = "wall"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Measure:
    """One round of work and its cost."""

    records: int
    cpu_s: float
    wall_s: float
    size: int = 0  # bytes worked on
    peak: int = 0  # bytes of memory at the most; 0: not measured

    def seconds(self, by: By) -> float:
        assert by is not By.MEMORY
        return self.cpu_s if by is By.CPU else self.wall_s

    def rate(self, by: By) -> float:
        """Records a second."""
        return self.records / max(self.seconds(by), 1e-9)


Work = Callable[[], Measure]


def race(
    contestants: Mapping[str, Work], by: By, repeat: int, most_s: float = MOST_SECONDS
) -> dict[str, Measure]:
    """The best round of each contestant, by name; they take turns."""
    best: dict[str, Measure] = {}
    spent = dict.fromkeys(contestants, 0.0)
    for _ in range(repeat):
        for name, work in contestants.items():
            if spent[name] >= most_s:
                continue
            measure = work()
            spent[name] += measure.wall_s
            best[name] = _better(best.get(name), measure, by)
    return best


def _better(old: Measure | None, new: Measure, by: By) -> Measure:
    if old is None:
        return new
    if by is By.MEMORY:
        return min(old, new, key=lambda measure: measure.peak)
    return max(old, new, key=lambda measure: measure.rate(by))


def timed(work: Callable[[], int], size: int = 0) -> Measure:
    """Run `work` in this thread; it returns how many records it has handled."""
    wall, cpu = perf_counter(), thread_time()
    records = work()
    return Measure(records, thread_time() - cpu, perf_counter() - wall, size)


def timed_process(command: Sequence[str], records: int, size: int = 0) -> Measure:
    """Run a program to its end, start-up included; what it prints is thrown away."""
    watched = [sys.executable, "-I", "-S", str(_CHILD), *command]
    answer = subprocess.run(
        watched, capture_output=True, text=True, check=True, env=usual_environment()
    )
    code, cpu, wall, peak = answer.stdout.split()
    if code != "0":
        raise PeerError(command[0], f"ended with {code}\n{answer.stderr[-2000:]}")
    return Measure(records, float(cpu), float(wall), size, int(peak))


def usual_environment() -> dict[str, str]:
    """Ours, but Python keeps the bytecode it has made, as it does for everybody by default.

    Where a container forbids that, a program compiles all its imports anew at every start.
    """
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


@dataclass(slots=True)
class Answering:
    """A program that is warm and runs one round for each line it is sent (see Iterate.java)."""

    command: Sequence[str]
    size: int = 0  # bytes of a round
    sums: list[int] = field(default_factory=list)  # what each round computed
    _process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Answering:
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if (said := self._line()) != "ready":
            self.__exit__()
            raise PeerError(self.command[0], f"said {said!r} where `ready` was expected")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.communicate()  # closes its input, which ends it

    def round(self, what: str = "go") -> Measure:
        assert self._process is not None and self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{what}\n")
            self._process.stdin.flush()
        if not (said := self._line()):
            raise PeerError(self.command[0], f"ended instead of doing `{what}`")
        records, cpu_ns, wall_ns, total = map(int, said.split())
        self.sums.append(total)
        return Measure(records, cpu_ns / 1e9, wall_ns / 1e9, self.size)

    def _line(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        return self._process.stdout.readline().strip()
