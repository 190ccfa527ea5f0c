"""Hopping through a file finds what reading all of it finds, and says the same of damage."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from sexton.base.errors import CorruptLog
from sexton.log import walking
from sexton.log.memory_disk import MemoryDisk
from sexton.log.real_disk import RealDisk
from sexton.records.tables import HeaderTable
from tests.handmade import batch, record
from tests.kafka_data import DATA
from tests.mutations import mutated, noise

SEGMENTS = [p.read_bytes() for p in sorted(DATA.rglob("*.log")) if p.stat().st_size]


def walked(disk: RealDisk | MemoryDisk, data: bytes) -> tuple[list[int], bytes, str]:
    """(positions, headers, what was wrong)"""
    file = disk.open("a")
    file.truncate(0)
    file.append(data)
    positions: list[int] = []
    headers: list[HeaderTable] = []
    why = ""
    try:
        for found in walking.walk(file, len(data), "a"):
            positions += found.position.tolist()
            headers.append(found.headers)
            assert found.ends.tolist()[:-1] == found.position.tolist()[1:]
    except CorruptLog as error:
        why = str(error)
    return positions, b"".join(table.tobytes() for table in headers), why


@pytest.mark.parametrize("seed", range(4))
def test_a_file_on_disk_and_one_in_memory_are_the_same(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "AT_ONCE", 7)
    monkeypatch.setattr(walking, "WINDOW_BYTES", 1024)
    random, disk = Random(seed), RealDisk(tmp_path)
    for number in range(120):
        data = random.choice(SEGMENTS)
        if number % 3:
            data = mutated(random, data) if number % 9 else noise(random)
        there, headers, why = walked(disk, data)
        expected, all_headers, expected_why = walked(MemoryDisk(), data)
        assert why == expected_why
        if not why:  # in memory nothing is told of a damaged file but the damage
            assert (there, headers) == (expected, all_headers)


@pytest.mark.parametrize("size", [1, 100, 500, 5000])
def test_windows_grow_and_shrink_with_the_batches(size: int, tmp_path: Path) -> None:
    data = b""
    for number in range(400):
        value = bytes(size if number // 50 % 2 else 1)
        data += batch(record(value=value), base_offset=number)
    assert walked(RealDisk(tmp_path), data) == walked(MemoryDisk(), data)


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_file_that_is_shorter_than_it_was_is_noticed(kind: str, tmp_path: Path) -> None:
    file = (RealDisk(tmp_path) if kind == "disk" else MemoryDisk()).open("a")
    data = batch(record()) + batch(record(), base_offset=1)
    file.append(data[: len(data) // 2])
    with pytest.raises(CorruptLog, match=f"ends before its {len(data)} bytes"):
        list(walking.walk(file, len(data), "a"))
