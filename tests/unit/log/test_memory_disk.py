"""The disk of the simulator: what it leaves after a power cut is what a file system could leave."""

from __future__ import annotations

from random import Random

import pytest

from sexton.log.memory_disk import MemoryDisk

TRIES = 20


@pytest.mark.parametrize("seed", range(TRIES))
def test_where_a_directory_is_gone_its_files_are_gone(seed: int) -> None:
    disk = MemoryDisk()
    disk.make_directory("orders-0")
    for name in ("a", "b"):
        file = disk.open(f"orders-0/{name}")
        file.append(b"records")
        file.sync()
    disk.sync_directory("orders-0")
    for name in ("a", "b"):
        disk.remove(f"orders-0/{name}")
    disk.remove("orders-0")
    after = disk.crash(Random(seed))
    assert after.exists("orders-0") or not after.names("orders-0")


@pytest.mark.parametrize("seed", range(TRIES))
def test_what_is_in_a_renamed_directory_is_as_safe_as_before(seed: int) -> None:
    disk = MemoryDisk()
    disk.make_directory("orders-0")
    disk.open("orders-0/synced").sync()
    disk.sync_directory("orders-0")
    disk.open("orders-0/fresh")
    disk.rename("orders-0", "aside")
    left = disk.crash(Random(seed)).names("aside")
    assert left in (["synced"], ["fresh", "synced"])
