"""A rehearsal changes nothing underneath."""

from __future__ import annotations

from pathlib import Path

from sexton.log.disk import replace
from sexton.log.overlay_disk import OverlayDisk


def test_what_is_done_to_the_overlay_is_seen_there_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    for name in ("kept", "changed", "renamed", "removed"):
        (tmp_path / "t-0" / name).write_bytes(name.encode())
    disk = OverlayDisk(tmp_path)
    changed = disk.open("t-0/changed")
    changed.append(b"!")
    disk.rename("t-0/renamed", "t-0/new")
    disk.remove("t-0/removed")
    replace(disk, "t-0/fresh", b"fresh")

    assert disk.names("t-0") == ["changed", "fresh", "kept", "new"]
    assert disk.read("t-0/changed") == changed.read_at(0, 100) == b"changed!"
    assert disk.read("t-0/new") == b"renamed"
    buffer = bytearray(5)
    assert disk.open("t-0/kept").read_into(1, memoryview(buffer)) == 3
    assert buffer == b"ept\0\0"
    assert not disk.exists("t-0/removed")

    below = {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}
    assert below == {name: name.encode() for name in ("kept", "changed", "renamed", "removed")}
