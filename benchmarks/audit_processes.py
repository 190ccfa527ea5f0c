"""What does Spark cost? The driver, its Java, and all the Pythons that Java has started.

    this process ── Java ── daemon ── worker, worker

Linux counts for each process its own CPU time and that of children which have ended, so the sum
over those that live leaves nothing out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _CPU = 1, slice(11, 15)  # places after the name: user, system, and both of ended children


@dataclass(frozen=True, slots=True)
class SparkProcesses:
    java: int  # its process id

    @classmethod
    def of(cls, spark: SparkSession) -> SparkProcesses:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        return cls(gateway.proc.pid)

    def cpu_s(self) -> float:
        """Since they started, this process included."""
        return process_time() + sum(sum(cpu) for _process, cpu in self._tree())

    def peak_of_a_worker(self) -> int:
        """The most memory that any Python has held so far, in bytes."""
        processes = [process for process, _cpu in self._tree() if process != self.java]
        return max(map(peak_memory, processes))

    def _tree(self) -> Iterator[tuple[int, list[float]]]:
        every = dict(_all_processes())
        inside = {self.java}
        while more := {p for p, (parent, _cpu) in every.items() if parent in inside} - inside:
            inside |= more
        return ((process, every[process][1]) for process in sorted(inside) if process in every)


def peak_memory(process: int | str = "self") -> int:
    """The most that it has held, in bytes; 0 if it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0][1]) * 1024 if found else 0


def _all_processes() -> Iterator[tuple[int, tuple[int, list[float]]]]:
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            text = (directory / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        fields = text.rpartition(")")[2].split()
        cpu = [int(ticks) / _TICKS for ticks in fields[_CPU]]
        yield int(directory.name), (int(fields[_PARENT]), cpu)
