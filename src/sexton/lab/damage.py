"""Damage a log as the world does, on a copy.

`sample/payments-0` was written by Apache Kafka 4.3.1: two transactional producers take turns, one
commits while the other aborts. (It is the test fixture `txn-interleaved` under a friendlier name.)
"""

from __future__ import annotations

import shutil
from pathlib import Path

SAMPLE = Path(__file__).parent / "sample" / "payments-0"


def copy_sample(folder: Path, name: str) -> Path:
    """A copy of the sample partition to do anything with."""
    target = folder / name
    shutil.copytree(SAMPLE, target)
    return target


def last_segment(partition: Path) -> Path:
    return max(partition.glob("*.log"))


def tear(partition: Path, size: int) -> None:
    """The last bytes never reached the disk, as when the power fails."""
    with last_segment(partition).open("r+b") as file:
        file.truncate(last_segment(partition).stat().st_size - size)


def flip_bit(partition: Path, position: int) -> None:
    """One bit turns over, as bits on old disks do."""
    with last_segment(partition).open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))
