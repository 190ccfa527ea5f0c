"""Which machine and which versions gave these figures? (A host's name is nobody's business.)"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from sexton.testing.java import find_java
from sexton.testing.kafka_jars import KAFKA_4

PACKAGES = (
    "sexton", "numba", "numpy", "lz4", "kafka-python", "aiokafka", "confluent-kafka", "pyspark",
)  # fmt: skip
BUSY = 0.3  # processes that want a core, by the load average, before we have started


@dataclass(frozen=True, slots=True)
class Machine:
    date: str
    cpu: str
    cores: int
    memory: int  # bytes
    system: str
    load: float  # of the last minute, when the run began
    versions: dict[str, str]

    @property
    def busy(self) -> bool:
        return self.load > BUSY * self.cores

    def lines(self) -> list[str]:
        """For people: the head of a report."""
        said = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        cores = f"{self.cores} cores" if self.cores != 1 else "1 core"
        lines = [
            f"{self.date} · {self.cpu}, {cores}, {self.memory / (1 << 30):.0f} GiB, {self.system}",
            said,
            f"load average at the start: {self.load:.2f}",
        ]
        if self.busy:
            lines[-1] += " (the machine was busy with other things: read wall times with care)"
        return lines


def this_machine() -> Machine:
    return Machine(
        date=datetime.now(UTC).date().isoformat(),
        cpu=_cpu_name(),
        cores=os.cpu_count() or 1,
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=platform.system(),
        load=os.getloadavg()[0],
        versions={
            "Python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
            "Apache Kafka": KAFKA_4,
            "Java": find_java().version,
        },
    )


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
