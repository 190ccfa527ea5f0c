"""What the reaper guards is gone when its owner is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sexton.testing.ports import ReservedPort
from sexton.testing.reaper import Reaper

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]


def test_closing_kills_the_group_and_removes_the_directory(tmp_path: Path) -> None:
    directory = tmp_path / "node"
    directory.mkdir()
    (directory / "file").touch()
    reaper = Reaper(directory)
    process = subprocess.Popen(SLEEPER, process_group=reaper.group)
    reaper.close()
    assert process.wait() == -9
    assert not directory.exists()


def test_a_directory_that_is_to_be_kept_stays(tmp_path: Path) -> None:
    Reaper(None).close()
    assert tmp_path.exists()


def test_the_death_of_the_owner_is_enough(tmp_path: Path) -> None:
    directory = tmp_path / "node"
    directory.mkdir()
    script = (
        "import os, pathlib, subprocess, sys\n"
        "from sexton.testing.reaper import Reaper\n"
        f"reaper = Reaper(pathlib.Path({str(directory)!r}))\n"
        f"subprocess.Popen({SLEEPER!r}, process_group=reaper.group)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    # The worker and the sleeper inherit this pipe: it ends when the last of them is gone.
    ended = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, check=False)
    assert ended.returncode == -9
    assert not directory.exists()


def test_a_reserved_port_can_be_listened_on_and_is_given_to_nobody_else() -> None:
    import socket

    port = ReservedPort()
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port.number))
        server.listen()
        others = [ReservedPort() for _ in range(50)]
        assert port.number not in {other.number for other in others}
    for reserved in (port, *others):
        reserved.release()
