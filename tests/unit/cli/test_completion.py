"""What a shell offers after TAB."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_what_makes_it_ask(shell: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "sexton.cli.main", "--show-completion", shell],
        # Else typer goes by the shell that started this test.
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert f"_SEXTON_COMPLETE=complete_{shell}" in answer.stdout
    assert answer.stderr == ""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sexton gu", {"guard"}),
        ("sexton lab ", {"list", "run"}),
        ("sexton audit --eng", {"--engine"}),
        ("sexton lab run eos", {"eos-checkpoint", "eos-offsets", "eos-streams"}),
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
