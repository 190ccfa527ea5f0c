"""What a directory of this machine tells of the file system below it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from sexton.log.disk import Room
from sexton.log.real_disk import RealDisk


def test_room_is_that_of_the_file_system(tmp_path: Path) -> None:
    room = RealDisk(tmp_path).room()
    assert room is not None
    assert room.total_bytes == shutil.disk_usage(tmp_path).total


def test_what_is_reserved_for_the_superuser_is_not_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = SimpleNamespace(f_frsize=512, f_bsize=4096, f_blocks=100, f_bfree=30, f_bavail=20)
    disk = RealDisk(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _path: told)
    assert disk.room() == Room(total_bytes=51_200, usable_bytes=10_240)


def test_a_disk_that_does_not_tell_is_no_error(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / ".")
    tmp_path.rmdir()
    assert disk.room() is None
