"""Parts go onto a pile from the last to the first, and come off it from the first to the last."""

from __future__ import annotations

from random import Random

import pytest

from sexton.log import cleaner_pile
from sexton.log.cleaner_pile import Pile
from sexton.log.memory_disk import MemoryDisk
from sexton.log.workshop import Room


def push(pile: Pile, part: bytes) -> None:
    room = pile.room(len(part) + 10)
    assert len(room.array) >= len(part) + 10
    room.array[: len(part)] = list(part)
    pile.push(len(part))


def taken(pile: Pile) -> list[bytes]:
    return [part.tobytes() for part in pile.parts()]


@pytest.mark.parametrize("held_bytes", [0, 100, 1000, 1 << 20])
def test_parts_come_off_in_reverse_whether_in_memory_or_not(
    held_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner_pile, "FIRST_BLOCK_BYTES", 64)
    monkeypatch.setattr(cleaner_pile, "BLOCK_BYTES", 256)
    disk, random = MemoryDisk(), Random(held_bytes)
    blocks: list[Room] = []
    pile = Pile(disk, "t-0/spill", blocks, held_bytes)
    for _round in range(3):
        parts = [random.randbytes(random.choice([0, 1, 20, 300])) for _ in range(30)]
        for part in parts:
            push(pile, part)
        assert taken(pile) == [part for part in reversed(parts) if part]
        assert disk.exists("t-0/spill") == (held_bytes < 1 << 20)
        pile.clear()
        assert taken(pile) == []
        assert not disk.exists("t-0/spill")
    assert sum(len(block.array) for block in blocks) < held_bytes + 10_000


def test_what_an_earlier_life_has_spilled_is_forgotten() -> None:
    disk = MemoryDisk()
    disk.open("spill").append(b"old")
    pile = Pile(disk, "spill", [], 0)
    push(pile, b"new")
    assert disk.read("spill") == b"new"
    assert taken(pile) == [b"new"]
