"""What a shell offers after TAB."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sexton gu", {"guard"}),
        ("sexton lab ", {"list", "run"}),
        ("sexton audit --eng", {"--engine"}),
    ],
)
def test_a_shell_is_told_what_could_come_next(typed: str, offered: set[str]) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "sexton.cli.main"],
        env={
            **os.environ,
            "_SEXTON_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(typed.count(" ")),
        },
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert set(answer.stdout.split()) == offered
    assert answer.stderr == ""
