"""What cannot be taken back is done if somebody says so, and not otherwise.

The cluster that is named is not there: whoever has consent goes on and says that, exit code 1.
"""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import RunSexton

PATIENCE_S = 60  # on a busy machine
ASKING = {
    "cluster topics": ("orders", "--delete"),
    "cluster elect": ("orders:0", "--unclean"),
    "guard panic": (),
}
NOT_ASKING = {
    "cluster topics": ("orders", "--create"),
    "cluster elect": ("orders:0",),
    "guard panic": ("--off",),
}


@pytest.fixture(scope="module")
def nowhere() -> Iterator[str]:
    """Nobody listens there, and nobody else gets it meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("command", ASKING)
def test_where_nobody_can_answer_it_is_not_done(
    command: str, run_sexton: RunSexton, nowhere: str
) -> None:
    result = run_sexton(*command.split(), *ASKING[command], "-b", nowhere, "--format", "json")
    assert result.code == 2
    assert result.json["error"]["subject"] == "--yes"
    assert "hint: add it" in result.stderr


@pytest.mark.parametrize("command", ASKING)
def test_with_yes_it_is_done(command: str, run_sexton: RunSexton, nowhere: str) -> None:
    result = run_sexton(*command.split(), *ASKING[command], "--yes", "-b", nowhere)
    assert result.code == 1 and nowhere in result.stderr


@pytest.mark.parametrize("command", NOT_ASKING)
def test_what_loses_nothing_is_not_asked(command: str, run_sexton: RunSexton, nowhere: str) -> None:
    result = run_sexton(*command.split(), *NOT_ASKING[command], "-b", nowhere)
    assert result.code == 1 and nowhere in result.stderr


def answered(answer: str, nowhere: str) -> tuple[int, str]:
    """How it ends at a terminal, and what is to be read there."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "sexton.cli.main", "cluster", "topics", "orders", "--delete",
             "-b", nowhere], stdin=theirs, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    return done.returncode, done.stderr


def test_at_a_terminal_the_answer_counts(nowhere: str) -> None:
    code, told = answered("y", nowhere)
    assert "Delete the topic orders and all its records? [y/N]" in told
    assert code == 1 and nowhere in told.splitlines()[-2]
    for no in ("n", ""):
        code, told = answered(no, nowhere)
        assert code == 2
        assert told.endswith(
            "error: cluster topics: was not begun\nhint: nothing has been changed\n"
        )


COMMAND = ["-m", "sexton.cli.main", "cluster", "topics", "orders", "--delete"]
# As `sexton repair` does: the question is asked while an event loop has taken Ctrl-C for itself.
IN_A_LOOP = """
import asyncio, sys, typer
from sexton.cli.consent import consent
from sexton.cli.output import Output
from sexton.cli.writers import Format

async def work():
    consent("repair", "rebuild 1 replica", False)

try:
    with Output("repair", Format.table):
        asyncio.run(work())
except typer.Exit as done:
    sys.exit(done.exit_code)
"""


def interrupted(key: str, arguments: list[str]) -> tuple[int, str]:
    """The same, if a key is pressed instead of an answer."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, *arguments], stdin=theirs, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as asking:  # fmt: skip
            assert asking.stderr is not None
            told = b""
            while not told.endswith(b"[y/N]:"):
                byte = asking.stderr.read(1)
                assert byte, told
                told += byte
            if key == "^C":
                asking.send_signal(signal.SIGINT)
            else:
                os.write(ours, b"\x04")
            try:
                _nothing, rest = asking.communicate(timeout=PATIENCE_S)
            finally:
                asking.kill()  # it may still be asking
    finally:
        os.close(ours)
        os.close(theirs)
    return asking.returncode, rest.decode()


@pytest.mark.parametrize("key", ["^C", "^D"])
@pytest.mark.parametrize("place", ["command", "loop"])
def test_a_key_that_ends_the_question_ends_the_command(key: str, place: str, nowhere: str) -> None:
    arguments = [*COMMAND, "-b", nowhere] if place == "command" else ["-c", IN_A_LOOP]
    code, told = interrupted(key, arguments)
    assert code == 130
    assert told.strip() == "nothing has been changed since the question\ninterrupted"
