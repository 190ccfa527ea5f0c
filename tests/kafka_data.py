"""The logs in tests/data that real Kafka wrote, and what its own DumpLogSegments says of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class KafkaLog:
    """One case of tools/fixture_cases.py as one Kafka version wrote it: a partition's directory."""

    version: str
    case: str
    directory: Path

    def __str__(self) -> str:
        return f"{self.version}/{self.case}"

    @property
    def segments(self) -> list[Path]:
        return sorted(self.directory.glob("*.log"))

    @cached_property
    def dumps(self) -> dict[str, str]:
        """What DumpLogSegments printed, by file name; files without a byte are not in it."""
        dumps: dict[str, str] = {}
        name = ""
        for line in (self.directory.parent / "dump.txt").read_text("utf-8").splitlines(True):
            if line.startswith("Dumping "):
                name = Path(line.removeprefix("Dumping ").rstrip("\n")).name
                dumps[name] = ""
            else:
                dumps[name] += line
        return dumps


def kafka_logs(pattern: str = "*", version: str = "*") -> list[KafkaLog]:
    """Every log whose case matches, such as `codec-*` or `cleaned-*.after`; at least one."""
    paths = sorted(DATA.glob(f"kafka-{version}/{pattern}/*-0"))
    assert paths, f"no fixture matches {version}/{pattern}"
    return [
        KafkaLog(path.parents[1].name.removeprefix("kafka-"), path.parent.name, path)
        for path in paths
    ]


def data_directory(version: str) -> Path:
    """A whole log directory with Kafka's own topics in it."""
    return DATA / f"kafka-{version}" / "data-directory" / "data"
